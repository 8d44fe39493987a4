package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// encode makes the new metadata. A file that several handles name gets one kind of
// handle, as Flink takes an absolute and a relative one for two files.
func (p *RepairPlan) encode() error {
	dir := p.snapshot.Dir
	chosen := map[string]string{} // by key of the recorded place
	for _, l := range p.lost {
		chosen[storage.Key(l.uri)] = l.list[l.chosen].Path
	}
	kept := map[string]bool{} // files that stay: whether their handles are relative
	for r := range p.snapshot.Refs() {
		if key := storage.Key(actual(dir, r)); r.Kind != metadata.RefDirectory && chosen[key] == "" {
			kept[key] = kept[key] || r.Kind == metadata.RefRelative
		}
	}
	dirs, err := p.mapDirectories(kept)
	if err != nil {
		return err
	}
	uses := map[[2]string]int{}
	s, err := p.snapshot.Rewrite(func(r metadata.Ref) (metadata.Location, error) {
		stay := metadata.Location{Path: r.Path, Relative: r.Kind == metadata.RefRelative}
		if r.Kind == metadata.RefDirectory {
			if to, ok := dirs[storage.Key(r.Path)]; ok {
				stay.Path = to
			}
			return stay, nil
		}
		from := actual(dir, r)
		to, ok := chosen[storage.Key(from)]
		if !ok {
			return stay, nil
		}
		p.Handles++
		uses[[2]string{storage.Dir(from), storage.Dir(to)}]++
		beside := storage.Key(storage.Dir(to)) == storage.Key(dir)
		relative, named := kept[storage.Key(to)]
		if !named {
			relative = r.Kind == metadata.RefRelative
		}
		if beside && relative && r.Kind != metadata.RefSegment {
			return metadata.Location{Path: storage.Base(to), Relative: true}, nil
		}
		if r.Kind == metadata.RefRelative {
			p.ToAbsolute++
		}
		return metadata.Location{Path: to}, nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.Source, err)
	}
	for k, n := range uses {
		p.Uses = append(p.Uses, PathChange{From: k[0], To: k[1], Handles: n})
	}
	slices.SortFunc(p.Uses, func(a, b PathChange) int { return strings.Compare(a.From+"\n"+a.To, b.From+"\n"+b.To) })
	if p.out, err = metadata.Encode(s); err != nil {
		return fmt.Errorf("%s: %w", p.Source, err)
	}
	return nil
}

// mapDirectories says where the directories of file merging are now, which Flink deletes as a
// whole: they went where the files did.
func (p *RepairPlan) mapDirectories(kept map[string]bool) (map[string]string, error) {
	var rules []Rule
	for _, l := range p.lost {
		if r, ok := moveOf(l.uri, l.list[l.chosen].Path); ok && !slices.Contains(rules, r) {
			rules = append(rules, r)
		}
	}
	stays := map[string]bool{}
	for key := range kept {
		stays[storage.Dir(key)] = true
	}
	to := map[string]string{}
	for r := range p.snapshot.Refs() {
		if r.Kind != metadata.RefDirectory {
			continue
		}
		var found []string
		for _, rule := range rules {
			if uri, ok := apply([]Rule{rule}, r.Path); ok && !slices.Contains(found, uri) {
				found = append(found, uri)
			}
		}
		switch {
		case len(found) == 0:
		case len(found) > 1 || stays[storage.Key(r.Path)]:
			return nil, fmt.Errorf("%s: the files of the directory %s of file merging are in several places now, but Flink keeps and deletes it as one; make a new copy with `drey relocate`: %w",
				p.Source, r.Path, ErrRefused)
		default:
			to[storage.Key(r.Path)] = found[0]
		}
	}
	return to, nil
}

// moveOf is the move of the directories of a file: what is left of two places without
// the end that they have in common.
func moveOf(from, to string) (Rule, bool) {
	from, to = storage.Dir(from), storage.Dir(to)
	for storage.Base(from) == storage.Base(to) && storage.Base(from) != "" {
		from, to = storage.Dir(from), storage.Dir(to)
	}
	return Rule{from, to}, storage.Key(from) != storage.Key(to) && storage.Base(from) != ""
}

// destination says where the metadata is written.
func (p *RepairPlan) destination(ctx context.Context, output string) (err error) {
	if output == "" {
		p.Backup, err = backupName(ctx, p.fsys, p.Source, ".before-repair", p.snapshot.Data)
		return err
	}
	p.Target = storage.Clean(output)
	elsewhere := storage.Key(storage.Dir(p.Target)) != storage.Key(p.snapshot.Dir)
	s, err := metadata.Decode(p.out)
	if err != nil {
		return err
	}
	for r := range s.Refs() {
		if elsewhere && r.Kind == metadata.RefRelative {
			p.Warnings = append(p.Warnings, fmt.Sprintf("%s has relative handles: it restores only from %s, so put it there", p.Target, p.snapshot.Dir))
			break
		}
	}
	switch there, err := storage.ReadAll(ctx, p.fsys, p.Target, maxMetadata); {
	case errors.Is(err, fs.ErrNotExist), err == nil && bytes.Equal(there, p.out):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%s: there already, with other content, and never replaced: %w", p.Target, ErrRefused)
}

// Execute writes the metadata, after the old one was kept. The files that it names are looked at
// once more; a snapshot that changed since it was planned is left as it is.
func (p *RepairPlan) Execute(ctx context.Context) error {
	switch {
	case p.Done():
		return nil
	case !p.Repairable():
		return p.refused()
	}
	for _, l := range p.lost {
		c := l.list[l.chosen]
		info, err := p.fsys.Stat(ctx, c.Path)
		if err == nil && (info.Dir || info.Size != c.Size) {
			err = fmt.Errorf("%s changed since the repair was planned: %w", c.Path, ErrRefused)
		}
		if err != nil {
			return err
		}
	}
	if p.Backup == "" {
		err := storage.WriteFile(ctx, p.fsys, p.Target, p.out, storage.CreateOptions{})
		if errors.Is(err, fs.ErrExist) {
			if there, rerr := storage.ReadAll(ctx, p.fsys, p.Target, maxMetadata); rerr == nil && bytes.Equal(there, p.out) {
				return nil
			}
		}
		return err
	}
	return replaceMetadata(ctx, p.fsys, p.Target, p.Backup, p.snapshot.Data, p.out)
}

// replaceMetadata puts new metadata in the place of the old, of which it makes a copy first.
func replaceMetadata(ctx context.Context, fsys storage.FS, uri, backup string, old, data []byte) error {
	err := storage.WriteFile(ctx, fsys, backup, old, storage.CreateOptions{})
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping the old metadata: %w", err)
	}
	now, err := storage.ReadAll(ctx, fsys, uri, maxMetadata)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, old) {
		return fmt.Errorf("%s was changed by somebody else: %w", uri, ErrRefused)
	}
	return storage.WriteFile(ctx, fsys, uri, data, storage.CreateOptions{Overwrite: true})
}
