package tools

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// TestNext says what is to do, and no word of deletion as long as anything is in doubt.
func TestNext(t *testing.T) {
	job, other := "ck/"+ownerA, "ck/"+ownerB
	fresh := func() *depot {
		d := &depot{t: t, fsys: storage.NewMemory(), base: "s3://b", times: map[string]time.Time{}}
		d.snapshot(job+"/chk-9", 3*day, d.state(job+"/shared", 2, 3*day)...)
		d.state(job+"/shared", 1, 40*day)
		return d
	}
	for _, c := range []struct {
		name  string
		make  func(d *depot)
		o     AuditOptions
		roots []string
		want  []string // commands
	}{
		{"litter", func(*depot) {}, AuditOptions{}, nil, []string{"drey gc --plan-out plan.json s3://b/"}},
		{"as the audit", func(*depot) {}, AuditOptions{Grace: 36 * hour, Aliases: []Rule{{"s3a://b", "s3://b"}}}, nil, []string{"drey gc --grace 36h --alias s3a://b=s3://b --plan-out plan.json s3://b/"}},
		{"with options", func(*depot) {}, AuditOptions{CommandOptions: []string{"--profile", "a b", "--s3-path-style"}}, nil, []string{"drey gc --profile 'a b' --s3-path-style --plan-out plan.json s3://b/"}},
		{"verify with options", func(d *depot) { d.put(other+"/chk-1/"+MetadataName, 10, day) }, AuditOptions{CommandOptions: []string{"--s3-path-style"}}, nil, []string{"drey verify --s3-path-style s3://b/" + other + "/chk-1/_metadata"}},
		{"all of it too young", func(*depot) {}, AuditOptions{Grace: 50 * day}, nil, nil},
		{"unreadable", func(d *depot) { d.put(other+"/chk-1/"+MetadataName, 10, day) }, AuditOptions{}, nil, []string{"drey verify s3://b/" + other + "/chk-1/_metadata"}},
		{"siblings", func(d *depot) { d.snapshot(other+"/chk-1", day) }, AuditOptions{}, []string{job}, []string{"drey audit s3://b/ck"}},
		{"moved", func(d *depot) {
			name := storage.Base(d.state("new/"+job+"/shared", 1, 40*day)[0])
			d.keyed(job+"/chk-10", 3*day, incrementalHandle(inline("m", 1), []metadata.Stream{file(t, "s3://b/old/"+job+"/shared/"+name, 10)}, nil))
		}, AuditOptions{}, nil, []string{"drey audit --alias s3://b/old=s3://b/new s3://b/"}},
		{"missing", func(d *depot) {
			d.keyed(job+"/chk-10", 3*day, incrementalHandle(inline("m", 1), []metadata.Stream{file(t, "s3://b/"+job+"/shared/99999999-0000-4000-8000-000000000001", 10)}, nil))
		}, AuditOptions{}, nil, []string{"drey repair s3://b/" + job + "/chk-10/_metadata"}},
		{"odd name", func(d *depot) {
			odd := "it's; $(x) `y`/" + other
			d.snapshot(odd+"/chk-9", 3*day, d.state(odd+"/shared", 2, 3*day)...)
			d.state(odd+"/shared", 1, 40*day)
		}, AuditOptions{}, []string{"it's; $(x) `y`"}, []string{`drey gc --plan-out plan.json 's3://b/it'\''s; $(x) ` + "`y`'"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fresh()
			c.make(d)
			var got []string
			for _, s := range d.audit(c.o, c.roots...).Next() {
				if s.Why == "" {
					t.Errorf("no reason for %q", s.Command)
				}
				got = append(got, s.Command)
			}
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestShellWord has a shell read back what was quoted.
func TestShellWord(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("needs a shell")
	}
	for _, word := range []string{"s3://b/ck-1_2=3@4%5+6,7", "", "a b", "it's", `a"b\c`, "$HOME `x` *?[~]#!&|;<>(){}", "two\nlines", "ü"} {
		out, err := exec.CommandContext(t.Context(), sh, "-c", "printf %s "+shellWord(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q became %q (%v)", word, out, err)
		}
	}
}
