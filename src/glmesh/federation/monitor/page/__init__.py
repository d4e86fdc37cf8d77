"""What stands on the page about sites, live or frozen: sentences, presence, sections, from files of state folders.

Charts, style and server are those of `glmesh.page`; nothing here may open a link, or change what a node does.
"""
