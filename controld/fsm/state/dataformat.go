//go:build !nextformat

package state

// DataFormat names the formats of the log and of snapshots. Until the first release they change in
// place, and each change raises the number behind "dev": a data directory of another format is
// refused. From the first release on it stays "1".
const DataFormat = "1-dev.19"
