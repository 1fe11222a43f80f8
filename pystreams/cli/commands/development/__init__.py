"""Commands for writing an application: its files, its picture, its keys, a broker to try it on."""
