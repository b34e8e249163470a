// Package docs holds the pages of the documentation, so that "rota explain" answers from the same
// text.
package docs

import "embed"

// Pages has the pages by file name, such as codes.md.
//
//go:embed *.md
var Pages embed.FS
