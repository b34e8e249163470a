//go:build !nextformat

package noded

// DataFormat is the format of a data directory that this version reads and writes.
const DataFormat = 3
