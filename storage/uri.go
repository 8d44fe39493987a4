package storage

import "strings"

// A URI here is what Flink's org.apache.flink.core.fs.Path makes of a string:
// scheme, authority and path, none of them percent-encoded.

// Split cuts a URI into scheme, authority and path without changing any of
// them. A string without scheme, and a Windows path such as C:\x or C:/x, is all path.
func Split(uri string) (scheme, authority, path string) {
	rest := uri
	if !hasDrive(rest) {
		colon, slash := strings.IndexByte(rest, ':'), strings.IndexByte(rest, '/')
		if colon > 0 && (slash < 0 || colon < slash) {
			scheme, rest = rest[:colon], rest[colon+1:]
		}
	}
	if strings.HasPrefix(rest, "//") && len(rest) > 2 {
		if end := strings.IndexByte(rest[2:], '/'); end >= 0 {
			authority, rest = rest[2:2+end], rest[2+end:]
		} else {
			authority, rest = rest[2:], ""
		}
	}
	return scheme, authority, rest
}

// unsplit is the inverse of Split in Flink's spelling: the authority's slashes
// stand only where there is an authority.
func unsplit(scheme, authority, path string) string {
	var b strings.Builder
	b.Grow(len(scheme) + len(authority) + len(path) + 3)
	if scheme != "" {
		b.WriteString(scheme)
		b.WriteByte(':')
	}
	if authority != "" {
		b.WriteString("//")
		b.WriteString(authority)
	}
	b.WriteString(path)
	return b.String()
}

// hasDrive says that s begins like a Windows path: a letter and a colon. So no scheme has one letter.
func hasDrive(s string) bool { return len(s) >= 2 && s[1] == ':' && isLetter(s[0]) }

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// Clean gives the spelling in which Flink's Path would record uri: "file:/x"
// for "file:///x", repeated slashes collapsed, "\" as "/", "." and ".."
// resolved, no slash at the end. It decodes and encodes nothing.
func Clean(uri string) string {
	scheme, authority, path := Split(uri)
	if scheme != "" && isClean(path) && len(path) > 0 && len(uri) == splitLen(scheme, authority, path) {
		return uri // as nearly always; a snapshot can name a million files
	}
	return cleaned(scheme, authority, path)
}

// splitLen is the length of what unsplit gives.
func splitLen(scheme, authority, path string) int {
	n := len(path)
	if scheme != "" {
		n += len(scheme) + 1
	}
	if authority != "" {
		n += len(authority) + 2
	}
	return n
}

// isClean says that cleanPath leaves an absolute path as it is.
func isClean(p string) bool {
	if p == "" || p == "/" {
		return true
	}
	if p[0] != '/' || p[len(p)-1] == '/' {
		return false
	}
	for i := 0; i < len(p); i++ {
		switch p[i] {
		case '\\':
			return false
		case '/':
			rest := p[i+1:]
			if rest[0] == '/' || rest[0] == '.' && (len(rest) == 1 || rest[1] == '/' || rest[1] == '.') {
				return false // a segment with two dots at its beginning is looked at closely
			}
		}
	}
	return true
}

// cleaned is Clean of the parts of a URI. The path is cleaned before it is put
// behind the others, as "//" at its beginning would pass for an authority.
func cleaned(scheme, authority, raw string) string {
	path := cleanPath(raw)
	drive := hasDrive(strings.TrimPrefix(path, "/"))
	switch {
	case path == "" && scheme != "" && authority == "":
		path = "/"
	case scheme == "" && authority == "" && strings.HasPrefix(path, "/") && drive:
		path = path[1:]
	case scheme == "" && authority == "" && colonFirst(path) && !(hasDrive(raw) && drive):
		path = "./" + path // or its first segment would pass for a scheme
	}
	if len(path) == 2 && scheme == "" && drive && len(raw) > 2 {
		path += "/" // the root of a drive
	}
	return unsplit(scheme, authority, path)
}

// colonFirst says that a relative path has a colon in its first segment.
func colonFirst(path string) bool {
	segment, _, _ := strings.Cut(path, "/")
	return strings.Contains(segment, ":")
}

func cleanPath(p string) string {
	if isClean(p) {
		return p
	}
	p = strings.ReplaceAll(p, `\`, "/")
	rooted := p[0] == '/'
	var out []string
	for seg := range strings.SplitSeq(p, "/") {
		switch {
		case seg == "" || seg == ".":
		case seg == ".." && len(out) > 0 && out[len(out)-1] != "..":
			out = out[:len(out)-1]
		default:
			out = append(out, seg)
		}
	}
	s := strings.Join(out, "/")
	if rooted {
		s = "/" + s
	}
	return s
}

// Join puts elements below a URI, as Flink's Path(parent, child) does for
// names that have no scheme of their own.
func Join(uri string, elem ...string) string {
	scheme, authority, path := Split(uri)
	for _, e := range elem {
		path += "/" + e
	}
	return cleaned(scheme, authority, path)
}

// Dir is the URI of the directory that holds uri; of a root, the root itself.
func Dir(uri string) string {
	scheme, authority, path := Split(Clean(uri))
	if i := strings.LastIndexByte(path, '/'); i > 0 {
		path = path[:i]
	} else if i == 0 {
		path = "/"
	}
	return unsplit(scheme, authority, path)
}

// Base is the last segment of uri's path; "" for a root.
func Base(uri string) string {
	_, _, path := Split(Clean(uri))
	return path[strings.LastIndexByte(path, '/')+1:]
}

// schemeAliases maps schemes that reach the same objects to one of them.
var schemeAliases = map[string]string{"": "file", "s3a": "s3", "s3n": "s3", "s3p": "s3"}

// defaultPorts are dropped from an authority when two are compared.
var defaultPorts = map[string]string{"hdfs": ":8020"}

// Scheme is uri's scheme in lower case with aliases resolved: s3a, s3n and
// s3p give s3, a path without a scheme gives file.
func Scheme(uri string) string {
	scheme, _, _ := Split(uri)
	scheme = strings.ToLower(scheme)
	if a, ok := schemeAliases[scheme]; ok {
		return a
	}
	return scheme
}

// Key is a spelling in which two URIs of the same object are equal: cleaned,
// scheme aliases resolved, default ports and file://localhost dropped, a Windows drive
// path with one slash before the drive. It is for comparing only; a URI that
// goes into metadata keeps its own spelling.
func Key(uri string) string {
	rawScheme, rawAuthority, rawPath := Split(uri)
	scheme, authority, path := Scheme(uri), rawAuthority, cleanPath(rawPath)
	if scheme == "file" {
		if authority == "localhost" {
			authority = ""
		}
		if hasDrive(path) {
			path = "/" + path
		}
	} else {
		authority = strings.TrimSuffix(strings.ToLower(authority), defaultPorts[scheme])
	}
	if path == "" {
		path = "/"
	}
	if scheme == rawScheme && authority == rawAuthority && path == rawPath && len(uri) == splitLen(scheme, authority, path) {
		return uri
	}
	return unsplit(scheme, authority, path)
}

// Rel gives the part of uri below dir, compared as [Key] compares and only at
// a segment boundary: "" if they are equal, false if uri is not below dir.
func Rel(dir, uri string) (string, bool) {
	d, u := Key(dir), Key(uri)
	if d == u {
		return "", true
	}
	if rest, ok := strings.CutPrefix(u, d); ok && (strings.HasSuffix(d, "/") || rest[0] == '/') {
		return strings.TrimPrefix(rest, "/"), true
	}
	return "", false
}
