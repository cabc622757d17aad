// node draw_page.js PAGE.html: runs the script of a page of `laplacectl evaluate` on a document of a few lines and prints, as
// XML, what it made of it. Whatever else a script might ask a browser for is not there, so that asking for it fails.
'use strict';
const fs = require('fs');
const vm = require('vm');

const XHTML = 'http://www.w3.org/1999/xhtml';
const escape = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');

class Element {
    constructor(namespaceURI, name) {
        Object.assign(this, {namespaceURI, name, attributes: new Map(), children: []});
    }
    setAttribute(key, value) {
        this.attributes.set(key, String(value));
    }
    append(...nodes) {
        this.children.push(...nodes.map((node) => (node instanceof Element ? node : String(node))));
    }
    toXml(outer) {
        const attributes = [...this.attributes].map(([key, value]) => ` ${key}="${escape(value)}"`).join('');
        const space = this.namespaceURI === outer ? '' : ` xmlns="${this.namespaceURI}"`;
        const inner = this.children.map((c) => (c instanceof Element ? c.toXml(this.namespaceURI) : escape(c))).join('');
        return `<${this.name}${space}${attributes}>${inner}</${this.name}>`;
    }
}

const page = fs.readFileSync(process.argv[2], 'utf8');
const [, text] = /<script type="application\/json" id="report">([^<]*)<\/script>/.exec(page);
const [, script] = /<script>([^]*?)<\/script>/.exec(page);
const main = new Element(XHTML, 'main');
main.setAttribute('id', 'page');
const document = {
    title: '',
    getElementById: (id) => ({page: main, report: {textContent: text}})[id],
    createElementNS: (space, name) => new Element(space, name),
};
vm.runInNewContext(script, {document});
const html = new Element(XHTML, 'html'), head = new Element(XHTML, 'head'), title = new Element(XHTML, 'title');
title.append(document.title);
head.append(title);
html.append(head, main);
console.log(html.toXml(''));
