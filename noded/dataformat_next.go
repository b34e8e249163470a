//go:build nextformat

package noded

// DataFormat is one that no release has, for packages that try an upgrade to another format.
const DataFormat = 1000
