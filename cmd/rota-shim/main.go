// Command rota-shim is the parent of one container. The node daemon starts it and gives it its order over the socket on descriptor
// 3; from then on it lives as long as the container, whatever becomes of the daemon.
package main

import (
	"fmt"
	"os"

	"github.com/rota-hpc/rota/noded/shim"
)

func init() { shim.Reexec() }

func main() {
	if err := shim.Serve(); err != nil {
		fmt.Fprintf(os.Stderr, "rota-shim: %v\n", err)
		os.Exit(1)
	}
}
