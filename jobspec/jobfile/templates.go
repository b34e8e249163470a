package jobfile

import (
	"embed"
	"fmt"
	"path"
	"strings"
)

//go:embed templates/*.hcl
var templateFiles embed.FS

// templateNames are the templates in the order in which they are shown.
var templateNames = []string{"single", "te", "ddp", "elastic", "sweep", "pipeline"}

// Template is an example job file to start from.
type Template struct {
	Name string
	Doc  string // its first comment, in one line
	Text string
}

// Templates lists the job files that `rota init` offers.
func Templates() []Template {
	list := make([]Template, len(templateNames))
	for i, name := range templateNames {
		text, err := templateFiles.ReadFile(path.Join("templates", name+".hcl"))
		if err != nil {
			panic(fmt.Sprintf("jobfile: template %s: %v", name, err)) // the templates are built into the program
		}
		first, _, _ := strings.Cut(string(text), "\n")
		list[i] = Template{Name: name, Doc: strings.TrimPrefix(first, "# "), Text: string(text)}
	}
	return list
}
