package manual

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/rota-hpc/rota/cmd/rota/command"
	"github.com/rota-hpc/rota/cmd/rota/exit"
	"github.com/rota-hpc/rota/jobspec/jobfile"
)

// manPage is one page of the manual, as roff.
type manPage struct {
	file string // such as rota-queue.1
	text []byte
}

// Packaged returns what packages install, by path: the pages of the manual below man, and the shells' completions below
// completions.
func Packaged(commands []*command.Command) map[string]string {
	files := map[string]string{}
	for _, p := range manPages(commands) {
		files["man/"+p.file] = string(p.text)
	}
	for _, s := range shells {
		files["completions/"+s.file] = s.script
	}
	return files
}

// writeManual writes the manual's pages into a directory: rota man DIR.
func writeManual(c *cli.Context, commands []*command.Command) error {
	if c.Args().Len() != 1 {
		return exit.Usagef("where to? rota man DIR")
	}
	for path, text := range Packaged(commands) {
		name, ok := strings.CutPrefix(path, "man/")
		if !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(c.Args().First(), name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// manPages writes a page for the program, one for each command, and one for job files.
func manPages(commands []*command.Command) []manPage {
	pages := []manPage{programPage(commands)}
	for _, c := range commands {
		if !c.Hidden {
			pages = append(pages, commandPage(c.Command))
		}
	}
	return append(pages, jobFilePage())
}

// roff writes the requests of a manual page.
type roff struct{ bytes.Buffer }

// roffText escapes text, so that a hyphen is one and no line begins with a request.
func roffText(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", "").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

func (r *roff) title(name, section string) {
	fmt.Fprintf(r, ".\\\" made by \"rota man\": change what the program says\n.TH %s %s \"\" Rota \"Rota Manual\"\n", strings.ToUpper(roffText(name)), section)
}

func (r *roff) heading(name string) { fmt.Fprintf(r, ".SH %s\n", strings.ToUpper(roffText(name))) }

func (r *roff) text(text string) { fmt.Fprintf(r, "%s\n", roffText(text)) }

// item is one entry of a list, under a bold name with what follows it in italics.
func (r *roff) item(name, value, text string) {
	fmt.Fprintf(r, ".TP\n\\fB%s\\fR", roffText(name))
	if value != "" {
		fmt.Fprintf(r, " \\fI%s\\fR", roffText(value))
	}
	fmt.Fprintf(r, "\n%s\n", roffText(text))
}

// literal is text that keeps its lines.
func (r *roff) literal(text string) {
	fmt.Fprintf(r, ".PP\n.nf\n%s\n.fi\n", roffText(strings.TrimRight(text, "\n")))
}

func (r *roff) seeAlso(pages ...string) {
	r.heading("see also")
	for i, p := range pages {
		name, section, _ := strings.Cut(p, ".")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		fmt.Fprintf(r, ".BR %s (%s)%s\n", roffText(name), section, end)
	}
}

func programPage(commands []*command.Command) manPage {
	var r roff
	r.title("rota", "1")
	r.heading("name")
	r.text("rota - " + purpose)
	r.heading("synopsis")
	fmt.Fprint(&r, ".B rota\n")
	r.text(synopsis)
	r.heading("description")
	r.text("Jobs are described in job files or batch scripts, submitted, watched and changed with the commands below. Options may stand before or behind\n" +
		"the arguments of a command.")
	category := ""
	see := []string{"rota-jobfile.5"}
	for _, c := range commands {
		if c.Hidden {
			continue
		}
		if c.Category != category {
			category = c.Category
			r.heading(category)
		}
		r.item("rota "+c.Name, "", c.Usage)
		see = append(see, "rota-"+c.Name+".1")
	}
	r.heading("options of every command")
	r.flags(command.CommonFlags())
	r.heading("environment")
	for _, v := range environment {
		r.item(v[0], "", v[1])
	}
	r.heading("exit status")
	for _, code := range exitStatus {
		r.item(code[0], "", code[1])
	}
	r.seeAlso(see...)
	return manPage{"rota.1", r.Bytes()}
}

// environment is what the program reads.
var environment = [][2]string{
	{"ROTA_ADDR", "Where the controllers are, if --addr does not say: http://host:port, unix:PATH, or several with commas. Without it, /run/rota/rota.sock, then\n" +
		"the \"rota dev\" of this directory."},
	{"ROTA_OUTPUT", "What -o is where it is not given, for commands that know the format."},
	{"ROTA_VAR_name", "The value of a job file's variable."},
	{"SBATCH_*", "Options for batch scripts, as sbatch reads them. They win over directives, and the command line wins over them."},
	{"NO_COLOR", "When set, nothing is coloured unless --color always is given."},
}

// exitStatus is what the program ends with.
var exitStatus = [][2]string{
	{"0", "It went well."}, {"1", "It failed."}, {"2", "The command line or the job file is wrong."}, {"3", "There is no such job, node or word."},
	{"4", "It is not allowed."}, {"5", "No controller can be reached."}, {"6", "The job would not start now (plan)."}, {"124", "It took too long."},
	{"", "run, wait, and submit with --wait or --follow return the job's own code: 128 and the signal that ended it, 253 when it ran out of memory, 124 at its\n" +
		"time limit. What goes wrong on Rota's side is then 120 (usage), 121 (not found), 122 (denied), 123 (no controller), 124 (timed out) or 125."},
}

func commandPage(c *cli.Command) manPage {
	var r roff
	name := "rota-" + c.Name
	r.title(name, "1")
	r.heading("name")
	r.text(name + " - " + c.Usage)
	r.heading("synopsis")
	fmt.Fprintf(&r, ".B rota %s\n", roffText(c.Name))
	if c.ArgsUsage != "" {
		r.text(c.ArgsUsage)
	}
	if c.Description != "" || len(c.Aliases) > 0 {
		r.heading("description")
		if c.Description != "" {
			r.text(c.Description)
		}
		for _, a := range c.Aliases {
			r.text("It may be called rota " + a + " too.")
		}
	}
	if len(c.Flags) > 0 {
		r.heading("options")
		r.flags(c.Flags)
	}
	r.seeAlso("rota.1", "rota-jobfile.5")
	return manPage{name + ".1", r.Bytes()}
}

// flags lists options with what stands for their values.
func (r *roff) flags(flags []cli.Flag) {
	for _, f := range flags {
		doc, ok := f.(cli.DocGenerationFlag)
		if !ok || !command.Visible(f) {
			continue
		}
		usage, value := flagUsage(doc)
		names := make([]string, len(f.Names()))
		for i, n := range f.Names() {
			names[i] = command.Dashed(n)
		}
		r.item(strings.Join(names, ", "), value, sentence(usage))
	}
}

// sentence has a capital letter at its begin and a full stop at its end.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func jobFilePage() manPage {
	var r roff
	r.title("rota-jobfile", "5")
	r.heading("name")
	r.text("rota-jobfile - what a job runs and what it needs, in HCL")
	r.heading("description")
	r.text("A job file holds one job block, and variable and locals blocks as needed. A job has groups of like workers, or a task directly. rota init writes\n" +
		"a file to begin with, rota validate checks one, and rota explain tells more of each word.")
	r.literal(jobfile.Templates()[0].Text)
	block := ""
	for _, a := range jobfile.Attributes() {
		if a.Block != block {
			block = a.Block
			fmt.Fprintf(&r, ".SS %s\n", roffText(block))
		}
		r.attribute(a)
	}
	r.seeAlso("rota.1", "rota-submit.1", "rota-init.1", "rota-validate.1", "rota-explain.1")
	return manPage{"rota-jobfile.5", r.Bytes()}
}

// attribute is one entry of a block's table.
func (r *roff) attribute(a jobfile.Attribute) {
	name, kind, text := a.Name, a.Type, sentence(a.Doc)
	if a.IsBlock {
		name, kind = a.Name+" { }", ""
	}
	if a.Refused != "" {
		r.item(name, kind, "Not supported yet: "+a.Refused+".")
		return
	}
	switch {
	case a.Required:
		text += " It must be written."
	case a.Default != "":
		text += " Default: " + a.Default + "."
	}
	r.item(name, kind, strings.TrimSpace(text))
}
