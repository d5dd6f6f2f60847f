"""From text to lines of cells: cleaning, wrapping, Markdown, code. Knows no widget."""
