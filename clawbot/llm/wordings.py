"""What vendors say of prompts that are too large, of quotas and of waiting: tables of who says it and the pattern that
finds it in a message in lower case. Taken from the vendors' servers and documents; the tests hold a whole message for
each row."""

from __future__ import annotations

# The prompt does not fit into the window.
WORDINGS: tuple[tuple[str, str], ...] = (
    ("OpenAI, DeepSeek, Moonshot, vLLM, Together, OpenRouter, Azure", r"max(?:imum)? context (?:length|of)"),
    ("OpenAI, as a code", r"context_length_exceeded"),
    ("OpenAI Responses, xAI, llama.cpp", r"(?:exceeds?|fit in(?:to)?) (?:\w+ )?(?:model'?s )?(?:\w+ )?context\b"),
    ("vLLM, Ollama, MLX", r"context (?:length|size|window) is (?:only )?\d[\d,]* tokens"),
    ("OpenAI, one message", r"string too long\. expected a string with maximum length \d{6}"),
    ("Anthropic, as a stop reason", r"model_context_window_exceeded"),
    ("nginx, Apache, Cloudflare and others before a server", r"(?:request entity|payload|413 content) too large"),
    ("Anthropic, bytes", r"request_too_large|request exceeds the maximum (?:allowed )?(?:number of bytes|size)"),
    ("Vertex, Bedrock, Copilot", r"(?:inputs?|prompt|context|conversation) (?:(?:is|was) )?too (?:long|large)"),
    ("Vertex, newer", r"input token count is \d+ but (?:the )?model only supports"),
    ("Ollama", r"(?:prompt|input) (?:is )?too long.{0,20}exceed(?:s|ed)? (?:the )?(?:max )?context length"),
    (
        "Ollama, embeddings and runner",
        r"input (?:length )?exceeds (?:the )?(?:maximum )?context length|prompt is longer than the context length",
    ),
    ("llama.cpp", r"exceed_context_size_error|n_keep \(\d+\) >= n_ctx|exceeds n_ctx"),
    ("llama.cpp, embeddings", r"too large to process|physical batch size|larger than the max(?:imum)? context size"),
    ("llama.cpp, older", r"context (?:shift is disabled|overflow)|context ?\w+ ?(?:has been )?exceeded"),
    ("DeepInfra, Novita", r"(?:prompt|total|requested) tokens(?: \S+)? exceed|tokens in (?:the |your )?prompt\b"),
    ("LM Studio", r"greater than the context length|(?:not enough context|trying to keep the first \d+ tokens)"),
    ("LM Studio, at the end", r"reached context length of \d+ tokens"),
    ("vLLM", r"(?:prompt|decoder prompt) \(?length.{0,30}(?:longer|greater|exceeds?)"),
    (
        "SGLang, TGI, Gemini, OpenAI, watsonx",
        r"(?:inputs? (?:tokens?|length)|`inputs`).{0,60}(?:must be <=|is longer than|exceeds?)",
    ),
    ("SGLang, whole prompts", r"the input \(\d+ tokens\) is longer than the model's context length"),
    ("TGI, older", r"`inputs` must have less than \d+ tokens"),
    ("TabbyAPI, ExLlama, SiliconFlow", r"(?:greater|longer|less|more) than (?:the )?max_seq_len|exceeds? max_seq_len"),
    (
        "TensorRT-LLM",
        r"prompt length.{0,60}(?:exceeds maximum input length|should (?:be less than|not exceed) max_num)",
    ),
    ("Groq", r"please reduce the length of the messages"),
    ("xAI", r"maximum prompt length is \d+"),
    ("Bedrock, Nova", r"(?:validationexception|malformed input).{0,80}expected maxlength"),
    ("Cohere", r"total number of tokens.{0,60}exceed|size limit exceeded.{0,40}tokens"),
    ("AI21, Bedrock", r"prompt has too many tokens|too many input tokens"),
    ("Cloudflare", r"exceeded this model(?:'s)? context window"),
    ("GitHub Models", r"tokens_limit_reached|request body too large for .{1,60} max size: \d+ tokens"),
    ("Moonshot, Copilot", r"exceeded model token limit|prompt token count of \d+ exceeds the limit"),
    ("Qwen, DashScope", r"range of input length should be"),
    ("GLM", r"(?:input|prompt|(?<!max_)token|输入(?!参数)|上下文|提示词).{0,20}(?:超[长过出限]|[过太]长)"),
    ("GLM, others", r"exceeds max length|longueur de contexte|kontextfenster|ventana de contexto|コンテキスト長"),
    ("Doubao, Volcengine", r"exceeds? max message tokens|input length \d+ exceeds the maximum length"),
    ("Perplexity, MiniMax", r"token limit (?:was )?exceeded|exceeds (?:the )?token limit|window exceeds limit"),
)

# A number of tokens: "8192", "128,000", "128k". Not of characters or bytes, which some limit as well.
_TOKENS = r"(\d[\d,_]{0,12})(?![\d,_])\s?(k\b)?(?!\s?(?:char|byte|[kmg]i?b\b))"
# What stands before (or after) the largest prompt, in the wordings above, the surest first. The size of the prompt
# itself stands near most of them.
LIMITS: tuple[tuple[str, str], ...] = (
    ("llama.cpp, embeddings", rf"current batch size\W{{1,2}}{_TOKENS}"),
    ("llama.cpp, LM Studio", rf"\bn_ctx\b\W{{1,4}}{_TOKENS}"),
    ("TabbyAPI, SiliconFlow, vLLM, TensorRT-LLM", rf"\bmax_(?:seq|model|num|input|position)_\w+\W{{1,4}}{_TOKENS}"),
    ("Anthropic", rf"\d(?: tokens)? > {_TOKENS}(?! -)"),
    ("llama.cpp, LM Studio, Novita", rf"(?:in the|slot|max(?:imum)?) context(?: of)?\W{{1,2}}{_TOKENS}"),
    ("Mistral, Bedrock, DeepInfra", rf"(?:max(?: input)? tokens:|\(max|maximum of) {_TOKENS}"),
    ("GLM, Z.ai", rf"最大(?:上下文|输入)?(?:长度)?\W{{1,2}}{_TOKENS}"),
    ("Mistral", rf"{_TOKENS} maximum context"),
    (
        "OpenAI and those that speak like it, Fireworks, LM Studio, llama.cpp, SGLang, Cloudflare",
        rf"context (?:length|window|size|limit|window limit)(?: (?:is|of|only)){{0,2}}\W{{1,2}}{_TOKENS}(?! \+)"
        r"(?! is (?:greater|longer))",
    ),
    (
        "vLLM, xAI, SGLang, Doubao, TensorRT-LLM",
        rf"(?<!string with )maximum (?:(?:model|prompt|input|allowed|sequence) ){{0,2}}length(?: (?:is|of))?"
        rf"\W{{1,2}}{_TOKENS}",
    ),
    ("Gemini", rf"maximum number of (?:input )?tokens(?: allowed)?\W{{1,2}}{_TOKENS}"),
    ("Vertex", rf"only supports (?:up to|at most) {_TOKENS}"),
    ("TGI, Together", rf"max_new_tokens`? must be <= {_TOKENS}"),
    ("TGI, older", rf"must have less than {_TOKENS}"),
    ("Cohere, watsonx", rf"cannot exceed (?:the total tokens limit )?{_TOKENS}"),
    ("Moonshot, Copilot, Cerebras, OpenAI", rf"\blimit(?: is| of|:)? {_TOKENS}"),
    ("Qwen", rf"input length should be \[\d+, ?{_TOKENS}\]"),
    ("GitHub Models", rf"max size: {_TOKENS} tokens"),
)
# No waiting helps, but money.
EXHAUSTED: tuple[tuple[str, str], ...] = (
    ("OpenAI, as a code", r"insufficient_quota|billing_(?:hard_limit|not_active)"),
    ("OpenAI", r"billing hard limit|quota.{0,40}platform\.openai\.com/docs/guides/error-codes"),
    ("Anthropic", r"credit balance|specified api usage limits"),
    (
        "xAI, OpenRouter, Vercel",
        r"(?:used all|out of|requires? more|insufficient|not enough) (?:\w+ )?credits?\b|reached.{0,20}spending limit",
    ),
    ("DeepSeek, MiniMax, SiliconFlow", r"(?:insufficient|not enough) (?:account )?(?:balance|funds)|payment required"),
    ("Moonshot", r"exceeded_current_quota_error"),
    ("GLM, Qwen, Doubao", r"(?:余额|额度)(?:不足|已?用完)|欠费|arrearage|accountoverdue|freetieronly"),
    ("LiteLLM, OpenRouter", r"budget[_ ](?:has been )?exceeded|billing cycle|extra usage|key limit exceeded \("),
)
_DURATION = (
    r"((?:\d+(?:\.\d+)?\s?(?:ms|milli(?:second)?s?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?)"
    r"(?![a-z])[\s,]*(?:and )?)+|\d+(?:\.\d+)?)"
)
# What stands before the time that a provider asks to wait.
WAITS: tuple[tuple[str, str], ...] = (
    ("OpenAI, Groq, Azure", rf"(?:try|retry)(?: your request)?(?: again)? (?:in|after):?(?: about)? {_DURATION}"),
    ("Cerebras, Together, Gemini", rf"(?:wait|wait for|(?:resets?|available)(?: again)? (?:in|after)) {_DURATION}"),
    ("Google, in details", rf"retry_?delay\W{{1,12}}(?:seconds\W{{1,8}})?{_DURATION}"),
    ("Gateways, as a field", rf"retry[_-]?after(?:_seconds)?\W{{1,8}}{_DURATION}"),
    ("GLM, Qwen", r"(\d+\s?(?:秒|分|小时))钟?[之以]?后"),
)
