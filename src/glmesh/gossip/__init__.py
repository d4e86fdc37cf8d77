"""Mixing estimates with the neighbours': by a matrix where nothing fails, by flow ledgers where something may."""
