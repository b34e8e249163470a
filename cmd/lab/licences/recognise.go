package main

import (
	"slices"
	"strings"
)

// licenceText is the content of one file of a module.
type licenceText struct {
	text  string
	names []string // of the licences that it holds, by SPDX's names; none of a notice
}

// recognitions are the licences that we know. A text holds a licence if it has all of some phrases,
// whatever the line breaks and capitals, and none of others.
var recognitions = []struct {
	name      string
	has, lack []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}, nil},
	{"MPL-2.0", []string{"mozilla public license", "2.0"}, nil},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy of this software"},
		nil},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose"}, nil},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "endorse or promote products"}, nil},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"},
		[]string{"endorse or promote products"}},
	{"CC-BY-4.0", []string{"creative commons attribution 4.0"}, nil},
	{"public domain", []string{"public domain"}, []string{"mozilla public license", "apache license"}},
}

// recognise names the licences that a text holds, in the order of the rules.
func recognise(text string) (names []string) {
	plain := strings.ToLower(strings.Join(strings.Fields(text), " "))
	in := func(phrase string) bool { return strings.Contains(plain, phrase) }
	for _, r := range recognitions {
		if !slices.ContainsFunc(r.has, func(p string) bool { return !in(p) }) && !slices.ContainsFunc(r.lack, in) {
			names = append(names, r.name)
		}
	}
	return names
}

// isLicenceFile reports whether a file holds a licence, or what a licence asks to pass on.
func isLicenceFile(name string) bool {
	name = strings.ToLower(name)
	if strings.Contains(name, "logo") { // of a picture, which no program holds
		return false
	}
	return strings.Contains(name, "license") || strings.Contains(name, "licence") ||
		strings.HasPrefix(name, "copying") || isNotice(name)
}

// isNotice reports whether a file only adds to a licence.
func isNotice(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "notice") || strings.HasPrefix(name, "patents")
}

// tidy removes blanks at the ends of lines and blank lines around the text, so that equal texts are
// equal.
func tidy(text string) string {
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}
