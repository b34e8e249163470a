package oci

import "testing"

// A node with two workers is one place to copy files to.
func TestNodeListNamesEachNodeOnce(t *testing.T) {
	if got, want := distinctNodes([]string{"gpu1", "gpu1", "gpu2", "gpu1"}), "gpu[1-2]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
