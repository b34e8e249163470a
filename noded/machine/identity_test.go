package machine

import (
	"os"
	"path/filepath"
	"testing"
)

// machineWith makes the files of a machine.
func machineWith(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestACloneIsAnotherMachine compares the names of machines that are alike. It notices an identity that
// comes from the disk alone, which a clone has too, and one that many machines share.
func TestACloneIsAnotherMachine(t *testing.T) {
	const id, uuid = "etc/machine-id", "sys/class/dmi/id/product_uuid"
	first := map[string]string{id: "3d12\n", uuid: "4C4C4544-0042-3510-8052-B4C04F4D3132\n"}
	name := Identity(machineWith(t, first))
	if name == "" || len(name) != 32 {
		t.Fatalf("a machine with a UUID is called %q", name)
	}
	if again := Identity(machineWith(t, first)); again != name {
		t.Errorf("after another boot it is called %q, %q before", again, name)
	}
	for what, files := range map[string]map[string]string{
		"a clone of the disk":    {id: "3d12\n", uuid: "4C4C4544-0042-3510-8052-B4C04F4D3133\n"},
		"another system on it":   {id: "77aa\n", uuid: first[uuid]},
		"the hypervisor's name":  {id: "3d12\n", "sys/hypervisor/uuid": "aa-bb\n"},
		"a board's serial":       {id: "3d12\n", "sys/firmware/devicetree/base/serial-number": "10000000f3\x00"},
		"a board whose DMI lies": {id: "3d12\n", uuid: "0000-00\n", "sys/hypervisor/uuid": "aa-bc\n"},
	} {
		if other := Identity(machineWith(t, files)); other == name || other == "" {
			t.Errorf("%s is called %q, the machine %q", what, other, name)
		}
	}
	for what, text := range map[string]string{
		"no name": "", "zeros": "00000000-0000-0000-0000-000000000000\n", "ones": "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF",
		"the example": "03000200-0400-0500-0006-000700080009", "a word": "To Be Filled By O.E.M.",
		"text":         "System Serial Number",
		"another word": "Not Specified", "one more": "Default string", "blanks": " \n", "signs": "--",
	} {
		if other := Identity(machineWith(t, map[string]string{id: "3d12\n", uuid: text})); other != "" {
			t.Errorf("with %s (%q) it is called %q, as many others", what, text, other)
		}
	}
}
