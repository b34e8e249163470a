package jobfile

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// Attribute is one attribute or block of the language, as its tables have it.
type Attribute struct {
	Block    string // where it stands
	Name     string
	IsBlock  bool
	Type     string
	Default  string
	Doc      string
	Required bool
	Deferred bool     // may hold references that only have a value once the job runs
	Refused  string   // what to do instead; set: not supported yet
	Content  []string // of a block: what may stand in it
}

// Attributes lists the language, block by block, in the order of the documentation.
func Attributes() []Attribute {
	var list []Attribute
	for _, s := range sections() {
		for _, a := range s.block.Attrs {
			list = append(list, Attribute{
				Block: s.name, Name: a.Name, Type: a.Type, Default: a.Default, Doc: a.Doc, Required: a.Required,
				Deferred: a.Deferred, Refused: a.Refused,
			})
		}
		for _, b := range s.block.Blocks {
			list = append(list, Attribute{Block: s.name, Name: b.Name, IsBlock: true, Doc: b.Doc, Refused: b.Refused,
				Deferred: holdsReferences(b), Content: content(b)})
		}
	}
	return list
}

// holdsReferences reports whether the values of a block that takes any name may be references.
func holdsReferences(b hclfile.Nested) bool { return b.Body != nil && b.Body.Deferred }

// content lists what may be written in a block.
func content(b hclfile.Nested) []string {
	if b.Body == nil {
		return nil
	}
	refused := section{block: b.Body}.refused()
	return slices.DeleteFunc(b.Body.Names(), func(name string) bool { return slices.Contains(refused, name) })
}
