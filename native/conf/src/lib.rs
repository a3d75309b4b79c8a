//! nginx configuration syntax: lexer, parser, directive table, typed configuration; knows no sockets.
