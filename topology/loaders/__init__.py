"""One file per source of topology; see docs/architecture.md, Plug-ins."""
