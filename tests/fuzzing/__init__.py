"""Hostile inputs, drawn by hypothesis: files of every reader, calls of every public function, command lines.

A reader is fuzzed by being registered (`readers.py`): a strategy of files as they are written, each with what it holds, and the
function that reads them. An input is such a file as it is, or with damage. What comes of it is judged: a sound file is read, and
what was read is what was written; a damaged one is refused in one line, or read without an invented number.

    strategy.py    damage of texts, bytes, archives and tables; values by the schemas of files
    readers.py     the readers, with the layouts of real exporters
    calls.py       public functions and methods with arguments that they accept
    commands.py    command lines, and inputs that are made to hang or to fill the memory
    judging.py     what comes of an input
"""
