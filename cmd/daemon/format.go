package daemon

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"
)

// FormatCommand returns the hidden command that prints the format of the data directory that a
// daemon reads and writes. Packages compare it with the one that is on the disk.
func FormatCommand(format string, out io.Writer) *cli.Command {
	return &cli.Command{
		Name: "format", Hidden: true, Usage: "print the format of the data directory",
		Action: func(*cli.Context) error {
			_, err := fmt.Fprintln(out, format)
			return err
		},
	}
}
