Traceback (most recent call last):
  File "<frozen runpy>", line 198, in _run_module_as_main
  File "<frozen runpy>", line 88, in _run_code
  File "/work/wt/gproto/tests/differential/__main__.py", line 137, in <module>
    sys.exit(main(sys.argv[1:]))
             ^^^^^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/differential/__main__.py", line 125, in main
    whole = run(*count, kind=options.kind, tell=True, keep=options.keep)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/differential/__main__.py", line 89, in run
    found = _tried(root, backend, number, count, kind)
            ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/differential/__main__.py", line 103, in _tried
    return one(root, backend, number, count, kind)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/differential/__main__.py", line 68, in one
    with both(root, backend.port, lambda place: asked.configuration(random, place)) as where:
  File "/root/.pyenv/versions/3.11.7/lib/python3.11/contextlib.py", line 137, in __enter__
    return next(self.gen)
           ^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/differential/servers.py", line 188, in both
    ("127.0.0.2", GallopInstance(root / "gallop")),
                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/support/gallop.py", line 28, in __init__
    self.binary = gallop_binary()
                  ^^^^^^^^^^^^^^^
  File "/work/wt/gproto/tests/support/gallop.py", line 16, in gallop_binary
    assert path.is_file(), f"{path} is not built; `make native` builds it"
AssertionError: x is not built; `make native` builds it
