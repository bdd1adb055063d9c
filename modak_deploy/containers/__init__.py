"""Container runtimes: which images each can be given, where an image lies, and how a program runs inside it."""
