package main

import (
	"github.com/rota-hpc/rota/jobspec/hostlist"
)

// hosts writes a list of node names in brackets, each once.
func hosts(names []string) string { return hostlist.Compress(distinct(names)) }
