#!/bin/sh
# Whether a program of this container says that it is well: healthy 9464/readyz
exec python -I -S -c 'import sys, urllib.request as web; web.urlopen("http://127.0.0.1:" + sys.argv[1], timeout=4)' "$1" 2>/dev/null
