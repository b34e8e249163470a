package main

import (
	"fmt"
	"strings"
)

// fence surrounds a text in the document. No licence has four of these in a row.
const fence = "````"

// document lists modules with their licences, and then each text once, with the modules that it
// belongs to.
func document(modules []module) string {
	var b strings.Builder
	b.WriteString("# Third-party licences\n\n" +
		"The programs `rota`, `rota-controld`, `rota-noded`, `rota-shim` and `rota-init` contain these " +
		"modules. The texts of their\n" +
		"licences follow. `make third-party` writes this file.\n\n| module | version | licence |\n|---|---|---|\n")
	var texts []string
	owners := map[string][]string{} // modules by text
	for i := range modules {
		m := &modules[i]
		fmt.Fprintf(&b, "| %s | %s | %s |\n", m.path, m.version, strings.Join(m.licences, ", "))
		for _, t := range m.texts {
			all := owners[t.text]
			if all == nil {
				texts = append(texts, t.text)
			}
			if len(all) == 0 || all[len(all)-1] != m.path {
				owners[t.text] = append(all, m.path)
			}
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n## %s\n\n%stext\n%s\n%s\n", strings.Join(owners[text], ", "), fence, text, fence)
	}
	return b.String()
}
