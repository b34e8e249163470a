// Package rota is the root of Rota, a batch system for GPU clusters. It holds no code: the tests
// beside this file keep the architecture, which package may import which, from drifting. The tree
// itself is described in docs/architecture.md.
package rota
