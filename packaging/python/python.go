// Package python is the Python module by which training programs talk to Rota. Every node daemon
// has it, and shows it to its jobs.
package python

import _ "embed"

// Name is the module's file name.
const Name = "rota.py"

// Module is the module's source.
//
//go:embed rota.py
var Module []byte
