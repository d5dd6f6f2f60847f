"""What the screens are built of: prompt with completions, approval, transcript, status line. `screens/` uses them."""
