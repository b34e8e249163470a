package api

import (
	"cmp"
	"strings"
)

// Release is the version of Rota that this is, or leads to.
const Release = "0.1.0"

// firstRelease is the one from which on a newer version reads what an older one has written.
const firstRelease = "0.1.0"

// version is that of a package, such as 0.1.0~3 for the third pre-release. The linker sets it.
var version string

// commit is what git calls the source. The linker sets it.
var commit string

// Build names what is installed, as every program says: the release, or the version of the package,
// and, where `make` built it, the commit.
func Build() string {
	named := cmp.Or(version, Release)
	if commit == "" {
		return named
	}
	return named + "+" + commit
}

// PreRelease reports whether this leads to the first release, which will not read its data. So does
// a build that is not a package.
func PreRelease() bool {
	return Release == firstRelease && (version == "" || strings.Contains(version, "~"))
}
