package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drey-state/drey/tools"
)

// advice says which option helps against a refusal, of which the library tells in words of its own.
type advice struct {
	operation string // of the plan; "" for any
	// words are those by which a refusal is known.
	words string
	text  string
}

// advices lists them in the order in which they are shown.
var advices = []advice{
	{"gc", "name the directory that holds them all as root", "add --reference DIR for each directory whose snapshots may use the files, or name the directory above as ROOT"},
	{"gc", "there is no snapshot below", "name as ROOT, or with --reference DIR, also the directories that hold the snapshots"},
	{"gc", "restrict deletion to the part", "name the whole as ROOT without this --reference, and the part with --only DIR"},
	{"gc", "name it as root or as reference", "add --reference TARGET, the place that the link leads to"},
	{"dispose", "name it as root or as reference", "add --scope TARGET, the place that the link leads to"},
	{"dispose", "is not in scope: name a directory above it", "name with --scope DIR a directory that holds the snapshot"},
	{"dispose", "name as scope the directories", "add --scope DIR for each directory with checkpoints of such jobs, and for that of the savepoint"},
	{"dispose", "directories came beside the roots", "add --scope DIR for each of them, or for the directory above"},
	{"dispose", "files in its directory", "--keep-used deletes the rest, and keeps the files that others use"},
	{"dispose", "say that the job does not run", "--stopped, if the job does not run"},
	{"dispose", "name a job manager", "--job-manager URL asks Flink"},
	{"", "not listed to its end", "check the path, and that it may be listed"},
	{"", "ignore this metadata by its path", "--ignore-metadata FILE, with the path of the metadata, if nothing that it uses is needed"},
	{"", "so is not ignored", "leave out --ignore-metadata for what can be read"},
	{"", "the roots may be spelled in another way", "--alias OLD=NEW, if recorded paths at OLD are those at NEW; if the job went on meanwhile, run it again"},
	{"gc", "may be missing", "add --reference DIR for other directories of snapshots, or --alias OLD=NEW for another spelling; --accept-mismatch, if really no snapshot uses these files"},
	{"gc", "ask the job manager that ran it", "--job-manager URL, of the cluster that ran the job; without it, wait for the grace period to be over"},
	{"", "more than the limit of", "--max-delete N, with a higher number, if so many may go"},
}

// twoNames finds the two names of what may be one place.
var twoNames = regexp.MustCompile(`snapshots name elsewhere: (.*) in metadata, (.*) in the listing; if that is one place, give the first the second as alias$`)

// whatHelps gives the options that help against the refusals of a plan, each once.
func whatHelps(p *tools.GCPlan) []string {
	var list []string
	for _, r := range p.Refused {
		if names := twoNames.FindStringSubmatch(r); names != nil {
			list = append(list, fmt.Sprintf("--alias %s, if that is one place", shellQuote(names[1]+"="+names[2])))
		}
	}
	for _, a := range advices {
		if (a.operation == "" || a.operation == p.Operation) && slices.ContainsFunc(p.Refused, func(r string) bool { return strings.Contains(r, a.words) }) {
			list = append(list, a.text)
		}
	}
	return list
}
