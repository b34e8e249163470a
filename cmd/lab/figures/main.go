// Command figures prints how large the product's code is and how closely its files depend on each
// other. It prints lines and tokens by package, and the files of each package's largest reference
// cycle. It also prints the types with most methods, and the length of function names.
//
// Tests are not counted, nor are examples and packages that only tests use. The laboratory is a
// module of its own.
package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
)

// shownTypes is how many types are listed, those with most methods first.
const shownTypes = 10

func main() {
	dir := flag.String("dir", ".", "a folder of the module to measure")
	flag.Parse()
	if err := run(*dir, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func run(dir string, out io.Writer) error {
	packages, err := productPackages(dir)
	if err != nil {
		return err
	}
	all := make([]figures, 0, len(packages))
	for _, p := range packages {
		f, err := measure(p)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	return printFigures(out, all)
}

// printFigures writes the table of packages, largest first, the table of types, and the figures of
// the whole.
func printFigures(out io.Writer, all []figures) error {
	slices.SortFunc(all, func(a, b figures) int {
		return cmp.Or(cmp.Compare(b.lines, a.lines),
			cmp.Compare(a.name, b.name))
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "lines\ttokens\tfiles\tin a cycle\t  package")
	var sum figures
	var types []typeFigures
	for _, f := range all {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t  %s\n", f.lines, f.tokens, f.files, f.cycle, f.name)
		sum.lines += f.lines
		sum.tokens += f.tokens
		sum.files += f.files
		sum.names = append(sum.names, f.names...)
		types = append(types, f.types...)
	}
	fmt.Fprintf(w, "%d\t%d\t%d\t\t  all %d packages\n", sum.lines, sum.tokens, sum.files, len(all))
	fmt.Fprintln(w, "\t\t\t\t")
	slices.SortStableFunc(types, func(a, b typeFigures) int { return cmp.Compare(b.methods, a.methods) })
	fmt.Fprintln(w, "methods\tin files\t\t\t  type")
	for _, t := range types[:min(shownTypes, len(types))] {
		fmt.Fprintf(w, "%d\t%d\t\t\t  %s\n", t.methods, t.files, t.name)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nfunctions and methods: %d, median length of a name: %d letters\n", len(sum.names),
		median(sum.names))
	return err
}
