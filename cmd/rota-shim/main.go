// Command rota-shim supervises the containers of one worker (noded/shim). The node daemon starts it
// and gives it its order over the socket on descriptor 3. From then on it lives as long as the
// containers, even if the daemon ends.
package main

import (
	"fmt"
	"io"
	"os"

	"github.com/rota-hpc/rota/noded/shim"
)

func init() { shim.Reexec() }

const usage = `rota-shim supervises the containers of one worker of a Rota job. It keeps their output, stops them when
their lease ends, and writes a record of how they ended. It keeps running while the node daemon restarts. rota-noded
starts it with a socket on descriptor 3 for its orders. It takes no arguments and is not meant to be
started by hand.
`

func main() {
	if len(os.Args) > 1 {
		os.Exit(answerArguments(os.Args[1:], os.Stdout, os.Stderr))
	}
	if err := shim.Serve(); err != nil {
		fmt.Fprintf(os.Stderr, "rota-shim: %v\n", err)
		os.Exit(1)
	}
}

// answerArguments is for a user that starts this program by hand. It returns the exit code.
func answerArguments(args []string, stdout, stderr io.Writer) int {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h" || args[0] == "help") {
		fmt.Fprint(stdout, usage)
		return 0
	}
	fmt.Fprintf(stderr, "rota-shim: argument %q is not expected: it takes none; see rota-shim --help\n", args[0])
	return 2
}
