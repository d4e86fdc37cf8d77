"""What stands on the page about sites, live or frozen: sentences, presence, sections, from files of state folders."""
