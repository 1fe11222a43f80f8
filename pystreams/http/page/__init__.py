"""The page at `/`: what an application does, for people.

HTML that is made here from the same snapshots as `/v1/status` (`sections`), with the topology as a
picture (`topology_picture`). It needs no JavaScript to be read; with it, one rendering a second is
shared by all who watch (`watchers`). Style and script are files of our own (`assets`), and the
Content-Security-Policy lets nothing else in.
"""
