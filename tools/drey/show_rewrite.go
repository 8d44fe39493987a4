package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/drey-state/drey/rewrite"
	"github.com/drey-state/drey/storage"
	"github.com/drey-state/drey/tools"
)

// rewriteResult is the JSON document of convert and edit.
type rewriteResult struct {
	*tools.RewritePlan
	// Executed is false for a dry run, and if something can't be carried over.
	Executed bool                 `json:"executed"`
	Result   *tools.RewriteResult `json:"result,omitempty"`
}

// rewriteSnapshot plans, shows the plan and does it.
func rewriteSnapshot(ctx context.Context, e *env, local storage.FS, o *rewriteFlags, opts tools.RewriteOptions, args []string) error {
	uris, err := targets(args)
	if err != nil {
		return err
	}
	plan, err := tools.PlanRewrite(ctx, storesWith(e, local, e.s3Endpoint, e.s3PathStyle, e.profile), uris[0], uris[1], opts)
	if err != nil {
		return err
	}
	if plan.Chosen != "" {
		e.note("%s", plan.Chosen)
	}
	result := rewriteResult{RewritePlan: plan}
	if !e.json {
		printRewritePlan(e, plan)
	}
	refused := len(plan.Problems) > 0
	if !refused && !o.dryRun {
		bar := newProgress(e, "reading")
		result.Result, err = plan.Execute(ctx, func(done, total int64) { bar.set(0, 0, done, total) })
		bar.stop()
		if err != nil {
			return err
		}
		result.Executed = true
	}
	if e.json {
		if err := printJSON(e.stdout, result); err != nil {
			return err
		}
	} else if !refused {
		printRewritten(e, o, &result)
	}
	if refused {
		return fmt.Errorf("%w: %s can't be carried over; nothing was written", tools.ErrRefused, plural(len(plan.Problems), "thing"))
	}
	if result.Result != nil {
		for _, d := range result.Result.Edits {
			if d.Matches == 0 {
				return errNo
			}
		}
	}
	return nil
}

func printRewritePlan(e *env, p *tools.RewritePlan) {
	w := e.stdout
	fmt.Fprintf(w, "%s\n-> %s\n%s, metadata version %d, %s of state to read\n", printable(p.Source), printable(p.Target), p.Kind, p.Version, size(p.Bytes))
	for i := range p.Operators {
		printRewrittenOperator(e, &p.Operators[i])
	}
	for i := range p.Edits {
		fmt.Fprintf(w, "edit of operator %s: %s\n", printable(p.Edits[i].Operator), printable(p.Edits[i].String()))
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "warning: %s\n", printable(text.String()))
	}
	for _, text := range p.Problems {
		fmt.Fprintf(w, "can't be carried over: %s\n", printable(text.String()))
	}
}

func printRewrittenOperator(e *env, o *tools.RewriteOperator) {
	w := e.stdout
	name := o.ID.String()
	switch {
	case o.UID != "":
		name += fmt.Sprintf(" (uid %s)", printable(o.UID))
	case o.Name != "":
		name += fmt.Sprintf(" (%s)", printable(o.Name))
	}
	if o.Dropped {
		fmt.Fprintf(w, "operator %s: dropped\n", name)
		return
	}
	var what []string
	if o.NewID != nil {
		to := o.NewID.String()
		if o.NewUID != "" {
			to += fmt.Sprintf(" (uid %s)", printable(o.NewUID))
		}
		what = append(what, "becomes "+to)
	}
	if o.NewParallelism != o.Parallelism {
		what = append(what, fmt.Sprintf("parallelism %d -> %d", o.Parallelism, o.NewParallelism))
	}
	if o.NewMaxParallelism != o.MaxParallelism {
		what = append(what, fmt.Sprintf("max parallelism %d -> %d", o.MaxParallelism, o.NewMaxParallelism))
	}
	if o.Work != "" {
		what = append(what, fmt.Sprintf("%s -> %s, %s", strings.Join(o.From, ", "), o.Format, workText[o.Work]))
	}
	if len(what) == 0 {
		what = append(what, "copied as it is")
	}
	fmt.Fprintf(w, "operator %s: %s\n", name, strings.Join(what, "; "))
	for _, s := range append(o.States, o.OperatorStates...) {
		switch {
		case s.To == "":
			fmt.Fprintf(w, "  state %q: dropped\n", printable(s.Name))
		case s.To != s.Name:
			fmt.Fprintf(w, "  state %q: renamed to %q\n", printable(s.Name), printable(s.To))
		case e.verbose:
			fmt.Fprintf(w, "  state %q, %s\n", printable(s.Name), s.Type)
		}
	}
}

var workText = map[rewrite.Work]string{
	rewrite.Copied: "files copied as they are", rewrite.Rewritten: "entry by entry", rewrite.Sorted: "sorted", rewrite.Moved: "keys move to other key groups",
}

func printRewritten(e *env, o *rewriteFlags, r *rewriteResult) {
	w := e.stdout
	if o.dryRun {
		fmt.Fprintln(w, "dry run: nothing was written")
		return
	}
	for _, d := range r.Result.Edits {
		fmt.Fprintf(w, "operator %s: %s: matched %d\n", printable(d.Operator), printable(d.Edit.String()), d.Matches)
	}
	fmt.Fprintf(w, "%d entries written, %d dropped, %d set; %s, %s\n", r.Result.Entries, r.Result.Dropped, r.Result.Put, plural(int(r.Result.Files), "file"), size(r.Result.Bytes))
	if r.Result.Spilled > 0 && e.verbose {
		fmt.Fprintf(w, "%s went through temporary files\n", size(r.Result.Spilled))
	}
	fmt.Fprintf(w, "done: restore from %s\n", printable(r.Target))
}
