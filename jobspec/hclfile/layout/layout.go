// Package layout gives a file in HCL the usual spaces and indentation.
package layout

import (
	"bytes"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
)

// Tidy returns the text of a file in HCL, with line ends of Unix, laid out as usual. False: its
// words would not be the same.
func Tidy(src []byte) ([]byte, bool) {
	text := endOfText(hclwrite.Format(src))
	for range maxFormat {
		again := endOfText(hclwrite.Format(text))
		if bytes.Equal(again, text) {
			break
		}
		text = again
	}
	return text, sameWords(src, text)
}

// endOfText ends a file with one line end and no blank lines.
func endOfText(text []byte) []byte {
	for {
		last := bytes.LastIndexByte(text, '\n') + 1
		if len(bytes.TrimSpace(text[last:])) > 0 {
			return append(text, '\n')
		}
		if text = text[:max(0, last-1)]; len(text) == 0 {
			return text
		}
	}
}

// maxFormat bounds how often the formatter is run until it changes nothing more.
const maxFormat = 8

// sameWords reports whether two files differ in nothing but white space between words.
func sameWords(a, b []byte) bool {
	x, y := words(a), words(b)
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		a, b := x[i].Bytes, y[i].Bytes
		if x[i].Type == hclsyntax.TokenComment {
			a, b = bytes.TrimRight(a, "\r\n"), bytes.TrimRight(b, "\r\n") // the last line may lack its end
		}
		if x[i].Type != y[i].Type || !bytes.Equal(a, b) {
			return false
		}
	}
	return true
}

// words are the tokens of a file, without the line end that the last line may lack.
func words(src []byte) hclsyntax.Tokens {
	tokens, _ := hclsyntax.LexConfig(src, "", hcl.InitialPos)
	for n := len(tokens); n > 1 && tokens[n-2].Type == hclsyntax.TokenNewline; n-- {
		tokens = append(tokens[:n-2], tokens[n-1])
	}
	return tokens
}
