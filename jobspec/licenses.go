package jobspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Limits of licences.
const (
	MaxLicenses     = 32 // kinds of one job
	MaxLicenseCount = 1_000_000
)

// LicenseText writes licences as Slurm does, by name: "ansys:1,matlab:2". It is "" for none.
func LicenseText(licenses map[string]int) string {
	if len(licenses) == 0 {
		return ""
	}
	list := make([]string, 0, len(licenses))
	for _, name := range slices.Sorted(maps.Keys(licenses)) {
		list = append(list, fmt.Sprintf("%s:%d", name, licenses[name]))
	}
	return strings.Join(list, ",")
}
