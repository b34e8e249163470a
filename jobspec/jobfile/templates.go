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

// Template is a job file to begin with.
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
			panic(fmt.Sprintf("jobfile: template %s: %v", name, err)) // it is part of the program
		}
		first, _, _ := strings.Cut(string(text), "\n")
		list[i] = Template{Name: name, Doc: strings.TrimPrefix(first, "# "), Text: string(text)}
	}
	return list
}
