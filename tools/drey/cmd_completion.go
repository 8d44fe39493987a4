package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// shells are those that completion knows, with what writes the script.
var shells = []struct {
	name  string
	write func(w *bufio.Writer, verbs []verb)
}{{"bash", completeBash}, {"zsh", completeZsh}, {"fish", completeFish}}

// verb is a command as completion sees it.
type verb struct {
	name, short string
	words       []string // arguments to choose from; none means files
	flags       []*pflag.Flag
}

func cmdCompletion() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", minArgs: 1, maxArgs: 1,
		short: "a script by which a shell completes commands, options and files",
		long: `
Writes a script for the shell, which then completes commands, their options, and names of files.

EXAMPLES
  source <(drey completion bash)
  drey completion zsh > ~/.zfunc/_drey       # a directory in fpath
  drey completion fish > ~/.config/fish/completions/drey.fish
`,
		run: func(_ context.Context, e *env, args []string) error {
			for _, s := range shells {
				if s.name == args[0] {
					return report(e.stdout, func(w *bufio.Writer) { s.write(w, verbs()) })
				}
			}
			return usagef("completion: no script for %q; there are bash, zsh and fish", args[0])
		},
	}
}

// verbs lists the commands with their options.
func verbs() []verb {
	var list []verb
	names := make([]string, 0, len(commands()))
	for _, c := range commands() {
		v := verb{name: c.name, short: c.short}
		if c.name == "completion" {
			v.words = strings.Split(c.args, "|")
		}
		f := flagSet(c, &env{})
		f.BoolP("help", "h", false, "what the command does")
		f.VisitAll(func(f *pflag.Flag) { v.flags = append(v.flags, f) })
		list = append(list, v)
		names = append(names, c.name)
	}
	return append(list, verb{name: "help", short: "what a command does, its options and examples", words: names})
}

// options are the options of a verb as words.
func (v *verb) options() string {
	var words []string
	for _, f := range v.flags {
		if words = append(words, "--"+f.Name); f.Shorthand != "" {
			words = append(words, "-"+f.Shorthand)
		}
	}
	return strings.Join(words, " ")
}

func verbNames(verbs []verb) string {
	names := make([]string, len(verbs))
	for i := range verbs {
		names[i] = verbs[i].name
	}
	return strings.Join(names, " ")
}

// completeBash gives no words where files are wanted: then readline completes
// names of files, with its quoting.
func completeBash(w *bufio.Writer, verbs []verb) {
	fmt.Fprintf(w, `# bash completion for drey: source <(drey completion bash)
_drey() {
	local cur=${COMP_WORDS[COMP_CWORD]} words='' options=''
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		words='%s'
	else
		case ${COMP_WORDS[1]} in
`, verbNames(verbs))
	for i := range verbs {
		v := &verbs[i]
		fmt.Fprintf(w, "\t\t%s) words='%s' options='%s' ;;\n", v.name, strings.Join(v.words, " "), v.options())
	}
	fmt.Fprint(w, `		esac
	fi
	case $cur in
	-*) words=$options ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -o default -F _drey drey
`)
}

func completeZsh(w *bufio.Writer, verbs []verb) {
	fmt.Fprint(w, "#compdef drey\n_drey() {\n\tlocal -a verbs\n\tverbs=(\n")
	for i := range verbs {
		fmt.Fprintf(w, "\t\t%s\n", shellQuote(verbs[i].name+":"+strings.ReplaceAll(verbs[i].short, ":", `\:`)))
	}
	fmt.Fprint(w, "\t)\n\tif ((CURRENT == 2)); then\n\t\t_describe command verbs\n\t\treturn\n\tfi\n\tlocal -a choices options\n\tcase $words[2] in\n")
	for i := range verbs {
		v := &verbs[i]
		fmt.Fprintf(w, "\t%s) choices=(%s) options=(%s) ;;\n", v.name, strings.TrimSpace(strings.Join(v.words, " ")), v.options())
	}
	fmt.Fprint(w, `	esac
	if [[ $PREFIX == -* ]]; then
		compadd -- $options
	elif (($#choices)); then
		compadd -- $choices
	else
		_files
	fi
}
if [[ ${funcstack[1]} == _drey ]]; then
	_drey "$@"
else
	compdef _drey drey
fi
`)
}

func completeFish(w *bufio.Writer, verbs []verb) {
	fmt.Fprint(w, "# fish completion for drey\n")
	for i := range verbs {
		v := &verbs[i]
		fmt.Fprintf(w, "complete -c drey -n __fish_use_subcommand -f -a %s -d %s\n", v.name, fishQuote(v.short))
		in := fishQuote("__fish_seen_subcommand_from " + v.name)
		if len(v.words) > 0 {
			fmt.Fprintf(w, "complete -c drey -n %s -f -a %s\n", in, fishQuote(strings.Join(v.words, " ")))
		}
		for _, f := range v.flags {
			short, value := "", ""
			if f.Shorthand != "" {
				short = " -s " + f.Shorthand
			}
			if f.NoOptDefVal == "" {
				value = " -r"
			}
			_, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(w, "complete -c drey -n %s -l %s%s%s -d %s\n", in, f.Name, short, value, fishQuote(usage))
		}
	}
}

// fishQuote makes s one word for fish.
func fishQuote(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}
