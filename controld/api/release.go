package api

// Release is the version of Rota that this is, or leads to.
const Release = "0.1.0"

// commit is what git calls the source. The linker sets it.
var commit string

// Build names what is installed, as every program says: the release and, where `make` built it, the
// commit.
func Build() string {
	if commit == "" {
		return Release
	}
	return Release + "+" + commit
}
