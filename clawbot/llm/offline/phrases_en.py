"""What English requests look like, as data: kind and pattern, the first that fits the whole message wins.

Patterns meet folded text (`language.fold`) without its opening pleasantries, ignoring case, and `.` meets line breaks.
Named groups become the fields of the intent. Repetitions away from the start are bounded, so that no text is slow.
"""

from __future__ import annotations

_ASK = (
    r"(?:(?:can|could|will|would) you (?:please |kindly |also )?|i(?:'d| would) like you to |i want you to |also |"
    r"always )?"
)
_KEEP = (
    r"(?:remember|memori[sz]e|(?:do not|don'?t|never) forget|(?:keep|bear) in mind|note to self|note down|note|"
    r"take (?:a )?note|make (?:a )?note|write (?:it |this |that )?down|jot (?:it |this |that )?down|for the record|"
    r"(?:save|store|put|add|write|keep) (?:it |this |that |the following |a note )?(?:to|in|into) "
    r"(?:your |my |the )?(?:memory|notes))"
)
_LINK = (
    r"(?: for me| also| please)?(?:\s{0,3}[:,-]\s{0,3}| (?:of )?(?:that|this|the following)\b\s{0,3}[:,]?\s{0,3}|"
    r"\s{1,3})"
)
_QUESTION_WORD = r"(?:what|which|who|whom|whose|where|when|why|how|if|whether|anything|something)"
_OPEN, _SHUT = r"(?P<q>[\"'`])", r"(?P=q)"
_FILE = r"[\"'`]?(?P<path>[^\s\"'`:,?]{0,200}\.[a-z][a-z0-9]{0,7}|makefile|dockerfile|license|readme)[\"'`]?"
_OF_FILES = (
    r"(?:in|within|inside|across|through) (?:all |the |my |your |these ){0,6}(?:files?|workspace|folders?|documents?|"
    r"docs)"
)
_OF_NOTES = r"(?:in|within|inside|from|through) (?:all |the |my |your ){0,6}(?:memory|memories|notes?)"
_END = r"[.!?\s]*"

RULES: tuple[tuple[str, str], ...] = (
    # About remembering, but asking
    (
        "recall_all",
        rf"(?:what (?:do|did|can) you (?:know|remember|recall)|what(?:'s| is) (?:in|on) (?:your |my |the )?memory|"
        r"what have i told you|(?:show|list|read|open|display)(?: me)? (?:all )?(?:of )?(?:my |your |the )?(?:notes|"
        r"memory|memories))"
        rf"(?: about me| so far| of me)?{_END}",
    ),
    (
        "todos",
        r"(?:what(?:'s| is| are) (?:on )?|show(?: me)? |list |do i have (?:any )?|any )(?:my |open |the |our ){0,6}"
        r"(?:to-?dos?|to-?do list|tasks?|reminders?)\b.{0,20}",
    ),
    ("todos", r"what (?:do|did|should) i (?:have|need|want) to (?:do|remember)\b.{0,20}"),
    (
        "last_talk",
        r"(?:so )?(?:what|where) (?:did|were|had|was) (?:we|i)(?: last)? (?:talk(?:ing)?|speak(?:ing)?|chat(?:ting)?|"
        r"discuss(?:ing)?|work(?:ing)?|doing|leave|left|stop)(?: about| on| off)?"
        rf"(?: (?:the )?(?:last|previous) (?:time|session|conversation|chat)| before| earlier)?{_END}",
    ),
    ("recall", r"(?:do|did|don'?t) you (?:still |even |also |not )?(?:remember|recall|know)\b(?P<text>.*)"),
    (
        "recall",
        rf"{_ASK}(?:please |still )?(?:remember|recall|remind me|tell me)(?: of|"
        rf" about)? {_QUESTION_WORD}\b(?P<text>[^:]*)",
    ),
    (
        "recall",
        r"(?:search|look|check)(?: in| through)? (?:my |your |the ){0,6}(?:memory|memories|notes?) (?:for|about|"
        r"on) (?P<text>.+)",
    ),
    ("recall", rf"(?:search|look|find|grep)(?: for| up)? (?P<text>.{{1,400}}) {_OF_NOTES}{_END}"),
    (
        "recall",
        r"(?:can|could|will|would) you (?:please |still )?(?:remember|recall)\b(?! that| to| this)"
        r"(?![^?]{0,400}\b(?:is|are|am|was|were|has|have|likes?|prefers?|uses?|needs?)\b)(?P<text>[^:]*)\?\s*",
    ),
    ("recall", r"(?:remember|recall)\b(?! that)(?P<text>[^:]*)\?\s*"),
    # Remembering
    ("nothing", rf"(?:never ?mind|forget (?:it|that|about it)|no matter){_END}"),
    (
        "todo",
        rf"{_ASK}(?:please )?(?:remind me|(?:do not|don'?t) let me forget)(?: to| that i (?:have|need) to| about|"
        r" that)?\b[:,]?"
        r" (?P<text>.+)",
    ),
    ("todo", rf"{_ASK}(?:please )?(?:remember|(?:do not|don'?t|never) forget) to (?P<text>.+)"),
    (
        "todo",
        r"(?:todo|to-do|task|add (?:a |to (?:my |the )?)?(?:todo|to-do|task)(?: list)?)\s{0,3}:\s{0,3}(?P<text>.+)",
    ),
    ("remember", rf"{_ASK}(?:please )?{_KEEP}(?:(?: (?:that|this|it))?{_END})"),
    ("remember", rf"{_ASK}(?:please )?{_KEEP}{_LINK}(?P<text>.+)"),
    (
        "remember",
        rf"(?!(?:{_QUESTION_WORD}|do|does|did|can|could|will|would)\b)(?P<text>.{{3,}}?)"
        r"(?:\s{0,2}[,.;!:-]\s{0,3}|\s(?=please |so |and |but ))(?:(?:so|and|but) )?(?:please )?"
        r"(?:(?:remember|keep in mind|note|don'?t forget) (?:that|this|it)|write (?:that|this|it) down)"
        r"(?: please| for me)?[.!\s]*",
    ),
    ("delete", rf"(?:please )?(?:delete|remove|erase) (?:the )?(?:file )?{_FILE}{_END}"),
    (
        "forget",
        r"(?:please )?(?:forget|unlearn) (?:about |that |what i said about |the note (?:that|about) )?(?P<text>.+)",
    ),
    (
        "forget",
        r"(?:please )?(?:delete|remove|erase) (?:the |my |that |this |a ){0,6}(?:note|memory|entry|line)s? ?"
        r"(?:that |about |on |with )?(?P<text>.*)",
    ),
    ("forget", rf"(?:please )?(?:delete|remove|erase) (?P<text>.{{1,400}}) {_OF_NOTES}{_END}"),
    # Files
    (
        "list",
        rf"{_ASK}(?:please )?(?:list|show(?: me)?|see|display|what|which)(?:'s| is| are)?(?: in| all| the| my| your|"
        r" me| of){0,6}"
        r" (?:files|folders|workspace|directory|dir)(?: (?:are|is|do|there|exist|you|have|i|we|can|see|in|the|my|"
        r"your|workspace|here)){0,6}"
        rf"{_END}",
    ),
    (
        "list",
        rf"{_ASK}(?:please )?(?:list|show(?: me)?|what|which)(?:'s| is| are)?(?: all| the| my){{0,6}} (?:files|"
        r"contents?)"
        r"(?: are| is| there){0,6} (?:in|under|of|inside) (?:the |my )?(?:folder |"
        r"directory )?[\"'`]?(?P<path>[\w./-]{1,200})[\"'`]?"
        rf"(?: folder| directory)?{_END}",
    ),
    ("list", r"(?:ls|dir)(?: (?P<path>[\w./-]{1,200}))?\s*"),
    (
        "list",
        rf"(?:list|show(?: me)?|open|what(?:'s| is) in) (?:the )?(?:folder )?[\"'`]?(?P<path>(?:[\w.-]{{1,80}}/){{1,9"
        rf"}}|memory)[\"'`]?{_END}",
    ),
    (
        "replace",
        rf"(?:please )?(?:replace|change|substitute) {_OPEN}(?P<old>.+?){_SHUT} (?:with|to|by|into) "
        rf"(?P<q2>[\"'`])(?P<text>.*?)(?P=q2) in (?:the )?(?:file )?{_FILE}{_END}",
    ),
    (
        "replace",
        rf"(?:please )?(?:replace|change|substitute) (?P<old>\S.{{0,400}}?) (?:with|to|by|into) (?P<text>.{{1,400}}?) "
        rf"in (?:the )?(?:file )?{_FILE}{_END}",
    ),
    (
        "replace",
        rf"in (?:the )?(?:file )?{_FILE},? (?:please )?(?:replace|change) (?P<old>\S.{{0,400}}?) (?:with|to|by|"
        rf"into) (?P<text>.{{1,400}})",
    ),
    (
        "append",
        rf"(?:please )?(?:append|add|write|put) {_OPEN}(?P<text>.+){_SHUT} (?:to|into|in|"
        rf"at the end of) (?:the )?(?:file )?{_FILE}{_END}",
    ),
    ("append", rf"(?:please )?(?:append|add) to (?:the )?(?:file )?{_FILE}\s{{0,3}}:\s{{0,3}}(?P<text>.+)"),
    (
        "append",
        rf"(?:please )?(?:append|add) (?:the (?:line|text) )?(?P<text>.{{1,4000}}) (?:to|into|"
        rf"at the end of) (?:the )?(?:file )?{_FILE}{_END}",
    ),
    (
        "overwrite",
        rf"(?:please )?overwrite (?:the )?(?:file )?{_FILE}\s?(?:with|:)(?: the (?:text|"
        rf"content))?\s{{1,3}}(?P<text>.+)",
    ),
    (
        "write",
        rf"{_ASK}(?:please )?(?:create|make|write|save)(?: a| the| new| file| called| named){{0,6}} {_FILE}"
        r"\s{0,3}(?:(?:with|containing|saying|and write)(?: the)?(?: text| content)?|:)[:\s]{1,3}(?P<text>.+)",
    ),
    ("write", rf"{_ASK}(?:please )?(?:create|make)(?: a| the| new| file| called| named){{0,6}} {_FILE}{_END}"),
    (
        "write",
        rf"(?:please )?(?:write|save|put) (?P<text>.{{1,4000}}) (?:to|into|in) (?:a |"
        rf"the )?(?:new )?(?:file )?{_FILE}{_END}",
    ),
    (
        "read",
        rf"{_ASK}(?:please )?(?:show(?: me)?|read|open|cat|display|print|view|see|what(?:'s| is)(?: written)? in|"
        r"what does)"
        rf"(?: me| the| my| your| file| contents?| of| out){{0,6}} {_FILE}(?: say| contain| file| to me|"
        rf" please)?{_END}",
    ),
    (
        "search_in",
        rf"(?:please )?(?:search|look|find|grep)(?: for)? (?P<text>.{{1,400}}) (?:in|inside|"
        rf"within) (?:the )?(?:file )?{_FILE}{_END}",
    ),
    ("search_in", rf"(?:please )?search (?:the )?(?:file )?{_FILE} for (?P<text>.{{1,400}})"),
    ("search", rf"{_ASK}(?:please )?(?:search|look|find|grep)(?: for)? (?P<text>.{{1,400}}) {_OF_FILES}{_END}"),
    (
        "search",
        rf"{_ASK}(?:please )?(?:search|look|grep)(?: through| in)? (?:all |the |my |your ){{0,6}}(?:files|workspace|"
        rf"folders?) for (?P<text>.{{1,400}})",
    ),
    ("search", r"(?:which|what) files? (?:contains?|mentions?|has|have|holds?) (?P<text>.{1,400}?)\??\s*"),
    ("search", r"(?:please )?(?:search(?: for)?|grep(?: for)?|find (?=[\"'`])) ?(?P<text>.{1,400})"),
    (
        "run",
        rf"{_ASK}(?:please )?(?:run|execute|exec)(?: the| this| shell| command|"
        rf" following){{0,6}}:?\s{{0,3}}(?P<q>`{{1,3}})(?:(?:ba)?sh\n)?"
        rf"(?P<text>[^`]+)(?P=q){_END}",
    ),
    ("run", r"\$ (?P<text>\S.*)"),
    ("run_hint", r"(?:please )?(?:run|execute|exec) (?P<text>[a-z][\w.-]{0,30}(?: [^?]{0,300})?)"),
    # About the program
    (
        "time",
        r"(?:please )?(?:(?:can you )?tell me )?(?:what(?:'s| is|s)? (?:the |today'?s )?(?:current |exact )?(?:time|"
        r"date|day|weekday)(?: is)?"
        r"(?: it| today| now| right now| of today){0,6}|what day of the week(?: is it)?|(?:the )?(?:current )?(?:time|"
        rf"date)|today'?s date){_END}",
    ),
    (
        "command",
        r"(?:please )?(?:what (?:does|is)|explain|how (?:does|do i use)|describe|help(?: with)?)(?: the)?(?: command)? "
        rf"[`\"']?/(?P<text>[a-z]{{1,20}})[`\"']?(?: do| work| for| mean| command){{0,6}}{_END}",
    ),
    ("command", rf"[`\"']?/(?P<text>[a-z]{{1,20}})[`\"']?\?{_END}"),
    (
        "connect",
        r"(?:how|where) (?:do|can|would|should) (?:i|we|you) (?:connect|use|set ?up|switch|change|configure|add|pick|"
        r"choose|get|enter|put|install)"
        r"\b.{0,80}\b(?:models?|llm|api[ -]keys?|keys?|ollama|openai|anthropic|claude|gpt|gemini|providers?|"
        r"deepseek)\b.{0,40}",
    ),
    ("connect", rf"(?:connect|switch|change)(?: to)?(?: an?| the| another| real| language){{0,6}} (?:model|llm){_END}"),
    ("commands", r"(?:what|which|list|show(?: me)?|explain|are there|tell me)\b.{0,40}\bcommands?\b.{0,40}"),
    ("commands", rf"(?:help|/help|commands){_END}"),
    (
        "who",
        r"(?:(?:who|what)(?: exactly)? are you|are you (?:an? )?(?:real |local |large )?(?:ai|llm|language model|"
        r"model|chatgpt|claude|gpt|"
        rf"gemini|bot|robot|human|person|real|online|offline|there)|what(?:'s| is) your name|introduce yourself|"
        r"(?:what|which)(?: kind of| sort of)? (?:language )?(?:model|llm|ai)(?: are you| is this| do you use|"
        rf" am i talking to| is running){{0,6}}){_END}",
    ),
    (
        "can",
        r"(?:what (?:can|could) (?:you|i) do(?: here| for me| with you)?|what do you do|how (?:can|"
        r"do) you help(?: me)?|"
        rf"(?:can you )?help me|what are (?:you able to do|your (?:abilities|capabilities|features|limits))|"
        rf"how do(?:es)? (?:this|it|you) work|how do i (?:start|use (?:this|you))){_END}",
    ),
    # Small talk
    (
        "hello",
        r"(?:hi|hello|hey|hiya|yo|howdy|greetings|good (?:morning|afternoon|evening|day)|how are you(?: doing)?|"
        r"what'?s up)"
        rf"(?:[, ]{{1,2}}(?:there|again|clawbot|everyone|how are you(?: doing| today)?)){{0,6}}{_END}",
    ),
    (
        "thanks",
        rf"(?:(?:ok(?:ay)?|great|cool|perfect|no)?[, ]{{0,2}})(?:thanks?|thank you|thx|ty|cheers|"
        r"much appreciated)(?: you)?"
        rf"(?: so much| very much| a lot| again| for (?:the|your) help| clawbot){{0,6}}{_END}",
    ),
    (
        "agreed",
        r"(?:ok(?:ay)?|great|cool|nice|perfect|awesome|good|got it|i see|sure|fine|all right|alright|yes|yep|no|"
        r"nope|wow|lol|hm+)"
        rf"(?:[, ]{{1,2}}(?:good|great|nice|cool|thanks|then))?{_END}",
    ),
    ("bye", rf"(?:bye(?:[ -]bye)?|goodbye|see you(?: later| soon| tomorrow)?|good night|quit|exit){_END}"),
)

OPENING = (
    r"(?:(?:hi|hello|hey|please|ok(?:ay)?|so|and|well|now|also|actually|by the way|btw|clawbot|thanks|great|cool|yes|"
    r"no)"
    r"(?:[ ](?:there|clawbot))?[\s,.!:;-]{1,3})"
)
"""A pleasantry before the request proper."""

QUESTION = (
    r"(?:what|which|who|whom|whose|where|when|why|how|do|does|did|is|are|was|were|am|can|could|should|shall|would|will|"
    r"has|have|had)(?:'s|n'?t)?\b"
)
"""How a question begins."""

PERSONAL = (
    r"\b(?:i|me|my|mine|we|us|our|ours|last time|earlier|before|previously|yesterday|decided?|agreed?|said|told|"
    r"mentioned|"
    r"notes?|memory|remember|did|was|were)\b"
)
"""Words of a question that notes may answer, in contrast to one about the world."""
