"""The agents over HTTP: tools, chats in OpenAI's protocol, health and figures."""
