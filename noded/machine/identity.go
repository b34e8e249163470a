package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
)

// hardwareNames are the files in which firmware or a hypervisor names this machine, the best first.
// /etc/machine-id is not among them: it is on the disk, so that a clone has it too.
var hardwareNames = []string{
	"sys/class/dmi/id/product_uuid", "sys/hypervisor/uuid", "sys/firmware/devicetree/base/serial-number",
}

// Identity returns a name of the hardware below root ("/": this machine), made from what its firmware or
// its hypervisor calls it and from the system's machine id: "" if nothing names it, or if the name is
// one that firmware gives to many machines. Two boots have the same name only on the same machine: a
// clone of its disk gets another one with the hypervisor's next virtual machine. The machine id itself
// is not told to others.
func Identity(root string) string {
	system, _ := os.ReadFile(filepath.Join(root, "etc/machine-id")) // a system need not have one
	for _, file := range hardwareNames {
		text, _ := os.ReadFile(filepath.Join(root, file)) // most machines have one of them
		name := strings.ToLower(strings.Trim(string(text), " \n\x00"))
		if name == "" || commonName(name) {
			continue
		}
		sum := sha256.Sum256([]byte("rota\n" + name + "\n" + strings.TrimSpace(string(system))))
		return hex.EncodeToString(sum[:16])
	}
	return ""
}

// commonName reports whether firmware was left with a name that is no machine's own: one character
// throughout, text in place of a number, or the example of the specification's reference code.
func commonName(name string) bool {
	digits := strings.ReplaceAll(name, "-", "")
	return strings.Trim(digits, digits[:min(1, len(digits))]) == "" || strings.Contains(name, "serial") ||
		strings.Contains(name, "default") || strings.Contains(name, "o.e.m") || strings.Contains(name, "not s") ||
		name == "03000200-0400-0500-0006-000700080009" || name == "12345678-1234-5678-90ab-cddeefaabbcc"
}
