// Command licences writes the licences of all modules that are linked into the programs that we
// ship, with their texts. Most of these licences ask for that. A licence that no rule recognises is
// an error, so that a person reads it.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: licences FILE")
		os.Exit(2)
	}
	if err := run(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "licences:", err)
		os.Exit(1)
	}
}

// run writes the licences for the programs of the module in dir to a file.
func run(dir, file string) error {
	modules, err := linkedModules(dir)
	if err != nil {
		return err
	}
	for i := range modules {
		if err := modules[i].readLicences(); err != nil {
			return err
		}
	}
	return os.WriteFile(file, []byte(document(modules)), 0o644)
}
