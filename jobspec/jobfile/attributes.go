package jobfile

import (
	"slices"

	"github.com/rota-hpc/rota/jobspec/hclfile"
)

// Attribute is an attribute or block of the language, as the documentation's tables show it.
type Attribute struct {
	Block    string // the enclosing block
	Name     string
	IsBlock  bool
	Type     string
	Default  string
	Doc      string
	Required bool
	Deferred bool     // may hold references whose value is known only when the job runs
	Refused  string   // what to do instead; set: not supported yet
	Content  []string // of a block: the names that it may contain
}

// Attributes lists the language block by block, in the order of the documentation.
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

// holdsReferences reports whether the values of a free block may be references.
func holdsReferences(b hclfile.Nested) bool { return b.Body != nil && b.Body.Deferred }

// content lists the names that a block may contain.
func content(b hclfile.Nested) []string {
	if b.Body == nil {
		return nil
	}
	refused := section{block: b.Body}.refused()
	return slices.DeleteFunc(b.Body.Names(), func(name string) bool { return slices.Contains(refused, name) })
}
