//go:build nextformat

package state

// DataFormat is one that no release has, for packages that try an upgrade to another format.
const DataFormat = "next"
