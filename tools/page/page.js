(function () {
  "use strict";
  var first = 25; // rows of a table that show at once
  var compare = new Intl.Collator("en", { numeric: true }).compare;

  // What a row is sorted by: a value, the whole of a shortened name, or the text.
  function key(row, column) {
    var cell = row.cells[column];
    var value = cell.getAttribute("data-sort");
    if (value !== null) { return value; }
    return (cell.querySelector(".full") || cell).textContent;
  }

  function button(text, parent, click) {
    var b = document.createElement("button");
    b.type = "button";
    b.textContent = text;
    b.addEventListener("click", click);
    parent.appendChild(b);
    return b;
  }

  document.querySelectorAll("table").forEach(function (table) {
    var body = table.tBodies[0];
    var heads = Array.from(table.tHead.rows[0].cells);
    var all = false;

    function show() {
      Array.from(body.rows).forEach(function (row, i) { row.hidden = !all && i >= first; });
    }

    function sort(column, down) {
      var numeric = heads[column].classList.contains("number");
      var rows = Array.from(body.rows).map(function (row) { return { row: row, key: key(row, column) }; });
      rows.sort(function (a, b) {
        var order = numeric ? Number(a.key) - Number(b.key) : compare(a.key, b.key);
        return down ? -order : order;
      });
      rows.forEach(function (r) { body.appendChild(r.row); });
      heads.forEach(function (h) { h.removeAttribute("aria-sort"); });
      heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
      show();
    }

    heads.forEach(function (head, i) {
      var name = head.textContent;
      head.textContent = "";
      button(name, head, function () {
        var now = head.getAttribute("aria-sort");
        sort(i, now ? now === "ascending" : head.classList.contains("number"));
      });
    });

    if (body.rows.length > first) {
      var more = button("", table.closest("section"), function () {
        all = !all;
        label();
        show();
      });
      var label = function () { more.textContent = all ? "show fewer" : "show all " + body.rows.length; };
      more.className = "more";
      label();
      show();
    }
  });
})();
