"""What terminals send, as xterm's ctlseqs, kitty, iTerm2, foot, VTE, rxvt and the Linux console document it, and what
is copied from programs: pastes with the text that they are, answers to questions about the terminal, keys."""

from __future__ import annotations

from tests.tables import load_table

BEGIN, END = "\x1b[200~", "\x1b[201~"

# Of each: what stands between the marks, and its text.
PASTES: list[tuple[str, str]] = [
    ("log: \x1b[31mERR\x1b[0m\rsecond line\rthird line", "log: ERR\nsecond line\nthird line"),
    ("total 2\r\x1b[0m\x1b[01;34mdir\x1b[0m\r\x1b[01;32mrun.sh\x1b[0m\r", "total 2\ndir\nrun.sh\n"),
    ("\x1b[1m\x1b[38;2;255;100;0mtrue colour\x1b[0m", "true colour"),
    ("\x1b[38:2::255:100:0mby colons\x1b[4:3mcurly\x1b[0m", "by colonscurly"),
    ("\x1b[?25l\x1b[2K\rdone\x1b[?25h", "\ndone"),
    ("\x1b[>4;2m\x1b[=0u\x1b[<umodes", "modes"),
    ("\x1b[2 qa\x1b[!pb\x1b[1$rc", "abc"),
    ("\x1b]0;a title\x07text", "text"),
    ("\x1b]0;a title\x1b\\text", "text"),
    ("see \x1b]8;;https://example.org/?a=1&b=2\x1b\\the page\x1b]8;;\x1b\\ now", "see the page now"),
    ("\x1b]133;A\x07$ make\r\x1b]133;C\x07ok\x1b]133;D;0\x07", "$ make\nok"),
    ("\x1b]52;c;cHduZWQ=\x07clip", "clip"),
    ("\x1bP1$r0m\x1b\\dcs", "dcs"),
    ("\x1b_Gi=31;OK\x1b\\apc", "apc"),
    ("\x1b^private\x1b\\pm", "pm"),
    ("\x1bXstring\x1b\\sos", "sos"),
    ("\x1b(B\x1b)0\x1b=\x1b>\x1bM\x1b7\x1b8\x1bctext", "text"),
    ("100%\x1b[K\r\x1b[1A\x1b[2Kdone", "100%\ndone"),
    ("\x9b31mred\x9b0m", "red"),
    ("\x9d0;title\x9cosc", "osc"),
    ("\x901$r0m\x9cdcs\x9fapc\x9c", "dcs"),
    ("ends with \x1b", "ends with "),
    ("ends with \x1b\x1b\x1b", "ends with "),
    ("\x1b中文", "中文"),
    ("an unfinished \x1b[", "an unfinished "),
    (f"one{BEGIN}two", "onetwo"),
    (f"{BEGIN}{BEGIN}\r", "\n"),
    ("\x1b[201", "201"),
    ("\x1b[20\x1b[201;1~", "20"),
    ("\x1b[A\x1b[B\x1b[15~\x1b[97;5u\x1b[I\x1b[Okeys", "keys"),
    ("\x1b[<0;3;4M\x1b[12;40R\x1b[?62;22canswers", "answers"),
    ("y\r", "y\n"),
    ("\x03\x04\x1a\x11\x13\x16\x7f\x00\x08quiet", "quiet"),
    ("tab\there\r\n\tand there\n", "tab\there\n\tand there\n"),
    ("a\r\rb\r\n\r\nc\n\rd", "a\n\nb\n\nc\n\nd"),
    ("page\x0cbreak\x0bline\x85next", "page\nbreak\nline\nnext"),
    ("今日　明日 \u00a0 👩‍👩‍👧‍👦 e\u0301", "今日　明日 \u00a0 👩‍👩‍👧‍👦 e\u0301"),
    ("שלום\u200f عربي\u200e \u2067x\u2069", "שלום\u200f عربي\u200e \u2067x\u2069"),
    ("\ufffd" * 20, "\ufffd" * 20),
    ("/quit\r!rm -rf ~\r", "/quit\n!rm -rf ~\n"),
    ("", ""),
    ("word " * 2000, "word " * 2000),
]

ANSWERS = [
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x07",  # the background, as xterm answers it
    "\x1b]11;rgb:1e1e/1e1e/1e1e\x1b\\",
    "\x1b]10;rgb:ffff/ffff/ffff\x07",
    "\x1b]10;rgba:ffff/ffff/ffff/ffff\x1b\\",
    "\x1b]12;#c0ffee\x1b\\",
    "\x1b]4;1;rgb:cdcd/0000/0000\x07",
    "\x1b]52;c;" + "cHduZWQ=" * 900 + "\x1b\\",  # the clipboard
    "\x1b]99;i=1:p=?;a=focus\x1b\\",
    "\x1b]1337;ReportCellSize=18.0;8.0;2.0\x1b\\",
    "\x1b]lthe title\x1b\\",
    "\x1bP>|tmux 3.3a\x1b\\",  # XTVERSION
    "\x1bP>|XTerm(379)\x1b\\",
    "\x1bP1$r0;1m\x1b\\",  # DECRQSS
    "\x1bP1+r544e=787465726d2d323536636f6c6f72\x1b\\",  # XTGETTCAP
    "\x1bP!|00000000\x1b\\",  # DA3
    "\x1b_Gi=31;OK\x1b\\",  # kitty's pictures
    "\x1b[?62;22c",  # DA1: foot, VTE, and one that is longer than any key
    "\x1b[?1;2c",
    "\x1b[?64;1;2;6;9;15;16;17;18;21;22;28;29c",
    "\x1b[>0;276;0c",  # DA2
    "\x1b[>41;379;0c",
    "\x1b[0n",
    "\x1b[?997;1n",  # dark or light
    "\x1b[12;40R",  # CPR, DECXCPR
    "\x1b[?12;40;1R",
    "\x1b[?2026;2$y",
    "\x1b[?2027;0$y",
    "\x1b[4;2$y",
    "\x1b[?0u",  # kitty's keyboard
    "\x1b[?31u",
    "\x1b[>4;2m",  # XTQMODKEYS
    "\x1b[8;24;80t",  # sizes
    "\x1b[4;480;800t",
    "\x1b[6;20;10t",
    "\x1b[2;1;1;112;112;1;0x",  # DECREQTPARM
    "\x1b[?1;0;256S",  # XTSMGRAPHICS
    "\x9b?62;22c",  # with controls of 8 bits
    "\x9d11;rgb:1e1e/1e1e/1e1e\x9c",
    "\x901$r0m\x9c",
    "\x9fGi=31;OK\x9c",
]

# Strings that no terminal is known to answer with; their first characters may be Alt with a key.
OTHER_STRINGS = load_table(__file__, "OTHER_STRINGS")

# Of each: what comes, and the keys (or other events) that it means.
KEYS: list[tuple[str, list[str]]] = [
    ("\x1b[A", ["up"]),
    ("\x1bOA", ["up"]),
    ("\x1b[1;5A", ["ctrl+up"]),
    ("\x1b[1;5H", ["ctrl+home"]),
    ("\x1b[3~", ["delete"]),
    ("\x1b[3$", ["shift+delete"]),  # rxvt
    ("\x1b[3^", ["ctrl+delete"]),
    ("\x1b[24@", ["ctrl+f22"]),
    ("\x1bOP", ["f1"]),
    ("\x1b[[A", ["f1"]),  # Linux console
    ("\x1b[15~", ["f5"]),
    ("\x1b[Z", ["shift+tab"]),
    ("\x1b[97u", ["a"]),
    ("\x1b[97;5u", ["ctrl+a"]),
    ("\x1b[27u", ["escape"]),
    ("\x1b[13;2u", ["shift+enter"]),
    ("\x1b[65;2;65u", ["A"]),
    ("\x1b[0;;20320:22909u", ["你", "好"]),
    ("\x1b[0;;" + ":".join(["20320"] * 9) + "u", ["你"] * 9),  # of an input method, longer than Textual looks
    ("\x1b[27;5;105~", ["ctrl+i"]),  # modifyOtherKeys
    ("\x1b[27;2;13~", ["shift+enter"]),
    ("\x1b[27;3;13~", ["alt+enter"]),
    ("\x1b[27;5;13~", ["ctrl+enter"]),
    ("\x1b[27;3;97~", ["alt+a"]),
    ("\x1b[32;2u", ["shift+space"]),
    ("\x1b[57413u", ["add"]),
    ("\x1b\r", ["alt+enter"]),
    ("\x1bx", ["alt+x"]),
    ("\x1b_", ["underscore"]),  # Textual's names have no Alt for these
    ("\x1b^", ["circumflex_accent"]),
    ("\x1bP", ["alt+shift+p"]),
    ("\x1b\x7f", ["ctrl+w"]),
    ("\x1b\x1b[A", ["escape", "up"]),
    ("\x1b[I", ["AppFocus"]),
    ("\x1b[O", ["AppBlur"]),
    ("\x1b[<0;3;4M", ["MouseDown 2,3"]),
    ("\x1b[<64;3;4M", ["MouseScrollUp 2,3"]),
    ("\x1b[<32;-2;-1M", []),
    ("\x1b[M !!", []),  # X10's mouse
    ("\x1b[32;3;4M", []),  # urxvt's
    ("\x1b[99999999999;5u", []),  # no character
    ("\x1b[97;1:3u", []),  # a key that was let go, which nobody asked for
    ("\t", ["tab"]),
    ("\x03", ["ctrl+c"]),
    ("你", ["你"]),
]
