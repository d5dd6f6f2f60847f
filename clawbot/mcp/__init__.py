"""MCP: tools of servers for the agent, and the memory for other programs. The only door to the library `mcp`."""
