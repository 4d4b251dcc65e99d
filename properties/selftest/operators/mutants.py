# SPDX-License-Identifier: Apache-2.0
"""The operator mutants of C++ sources, found in their syntax trees.

Six classes: relational, arithmetic and logical operators, constants, deleted statements, swapped
arguments. Only places are taken at which every instance of a template has types under which the
mutated text compiles, too.

Leaves out: whatever is evaluated by the compiler, because no switch could reach it; functions of
the name audit and calls of them, which a release does not have; the steps of for loops, whose
mutants only hang; what can change time only: functions that prefetch and calls of them, and the
break that ends a switch.
"""
import hashlib
import re
from dataclasses import dataclass, field

RELATIONAL = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"),
              "==": ("!=",), "!=": ("==",)}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&": "|", "|": "&", "^": "&",
              "<<": ">>", ">>": "<<"}
LOGICAL = {"&&": "||", "||": "&&"}
STEPS = {"++": "--", "--": "++"}
SIGNS = {"-": "+", "~": "+"}
NUMBERS = {"int", "unsigned int", "long", "unsigned long", "long long", "unsigned long long",
           "short", "unsigned short", "char", "signed char", "unsigned char", "float", "double",
           "bool"}
SYMMETRIC = {"min", "max", "swap", "gcd"}
AUDIT = "audit"
PREFETCH = "prefetch"  # in the name of a function that only prefetches

BY_COMPILER = {"ConstantExpr", "StaticAssertDecl", "EnumDecl", "UnaryExprOrTypeTraitExpr",
               "CXXNoexceptExpr", "RequiresExpr", "ConceptDecl", "NonTypeTemplateParmDecl",
               "TemplateArgument", "AlignedAttr"}
FUNCTIONS = {"FunctionDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl",
             "CXXConversionDecl"}
CALLS = {"CallExpr", "CXXMemberCallExpr", "CXXTemporaryObjectExpr"}
EXPRESSION_STATEMENTS = {"CallExpr", "CXXMemberCallExpr", "CXXOperatorCallExpr", "BinaryOperator",
                         "CompoundAssignOperator", "UnaryOperator", "CXXStaticCastExpr"}
TRANSPARENT = {"ExprWithCleanups", "ImplicitCastExpr", "MaterializeTemporaryExpr",
               "CXXBindTemporaryExpr"}
CONTEXT = 60  # [bytes] of the text around a mutant that its key shows at most


@dataclass
class Mutant:
    """The bytes [begin, end) of a file become `text`. They lie in [schema_begin, schema_end): an
    expression, or the statement that is deleted.
    """
    file: str
    schema_begin: int
    schema_end: int
    begin: int
    end: int
    text: str
    operator: str     # the class
    change: str       # for example "< to <="
    function: str
    shown: str = ""   # the text around it, the changed part in backticks
    line: int = 0
    ordinal: int = 1  # among those that look the same
    number: int = 0   # of its switch
    deletes: bool = False
    as_bool: bool = False  # the expression stands where a condition is expected

    @property
    def place(self):
        return self.file, self.schema_begin, self.schema_end, self.begin, self.end, self.change

    @property
    def id(self):
        key = "\n".join((self.file, self.function, self.shown, self.change, str(self.ordinal)))
        return hashlib.sha256(key.encode()).hexdigest()[:8]


@dataclass
class Scope:
    """What surrounds a node."""
    function: str = ""
    returns: bool = False       # the function has a value
    last: object = None         # the last statement of its body
    frame: tuple = (0, 0)       # the bytes of the statement or declaration
    null: bool = False          # a 0 here is a null pointer
    switch: object = None       # the body of the switch right around it

    def inside(self, **changes):
        return Scope(**{**self.__dict__, **changes})


def bare(node):
    """The expression that is written, without conversions that are not."""
    while node.kind in TRANSPARENT and node.children:
        node = node.children[0]
    return node


def is_number(node):
    return node.type in NUMBERS


def is_pointer(node):
    return node.type.endswith("*")


def is_dependent(node):
    return "<dependent type>" in node.type or not node.type


def callee(node):
    """The name of the function that a call calls."""
    at = node.children[0] if node.children else node
    while at.children and at.kind not in ("DeclRefExpr", "MemberExpr"):
        at = at.children[0]
    return (at.fields.get("referencedDecl", {}).get("name") or at.name).removeprefix("->")


@dataclass
class Finder:
    """Collects the mutants of trees. @param texts file -> text, of the files that are mutated"""
    texts: dict
    found: dict = field(default_factory=dict)
    refused: set = field(default_factory=set)    # places where some instance has other types
    constants: set = field(default_factory=set)  # (file, begin, end) that the compiler evaluates

    def mutants(self, first):
        """All, in the order of the text, numbered from `first`."""
        fixed = {}
        for file, begin, end in self.constants:
            fixed.setdefault(file, []).append((begin, end))
        out = [m for place, m in self.found.items() if place not in self.refused
               and not any(b <= m.begin and m.end <= e for b, e in fixed.get(m.file, []))]
        out.sort(key=lambda m: (m.place[:-1], m.operator, m.change))
        seen = {}
        for number, mutant in enumerate(out, first):
            mutant.number = number
            same = (mutant.file, mutant.function, mutant.shown, mutant.change)
            mutant.ordinal = seen[same] = seen.get(same, 0) + 1
        return out

    # ---- what a place becomes -----------------------------------------------------------------

    def add(self, scope, node, part, text, operator, change, sound=True, **more):
        """@param part [begin, end) of the bytes that become `text` @param sound it compiles"""
        if node.file not in self.texts or not node.in_text:
            return
        source = self.texts[node.file]
        end = more.pop("schema_end", node.end)
        mutant = Mutant(node.file, node.begin, end, *part, text, operator, change,
                        scope.function, **more)
        mutant.line = source.count("\n", 0, part[0]) + 1
        mutant.shown = shown(source, scope.frame, part)
        if sound:
            self.found.setdefault(mutant.place, mutant)
        else:
            self.refused.add(mutant.place)

    def between(self, left, right, token):
        """The bytes of an operator that stands between two operands; None if it is not there."""
        if not left.in_text or not right.in_text or left.file not in self.texts:
            return None
        gap = self.texts[left.file][left.end:right.begin]
        if gap.strip() != token:
            return None
        begin = left.end + gap.index(token)
        return begin, begin + len(token)

    def text(self, node):
        return self.texts[node.file][node.begin:node.end]

    # ---- operators ----------------------------------------------------------------------------

    def binary(self, node, scope):
        left, right = node.children[:2]
        token = node.fields["opcode"]
        part = self.between(left, right, token)
        if part is None or is_dependent(left) or is_dependent(right):
            return
        numbers = is_number(left) and is_number(right)
        for other in RELATIONAL.get(token, ()):
            ordered = token not in ("==", "!=")
            self.add(scope, node, part, other, "relational", f"{token} to {other}",
                     not ordered or numbers or is_pointer(left))
        if token in ARITHMETIC:
            other = ARITHMETIC[token]
            moves = token in "+-" and is_pointer(left) and is_number(right)
            whole = not {left.type, right.type} & {"float", "double"}
            self.add(scope, node, part, other, "arithmetic", f"{token} to {other}",
                     moves or (numbers and (whole or other in "+-*/")))
        if token in LOGICAL:
            other = LOGICAL[token]
            self.add(scope, node, part, other, "logical", f"{token} to {other}")
            for kept, side in ((left, "left"), (right, "right")):
                self.add(scope, node, (node.begin, node.end), f"({self.text(kept)})", "logical",
                         f"{token} to its {side} side", as_bool=True)

    def compound(self, node, scope):
        left, right = node.children[:2]
        token = node.fields["opcode"]
        other = ARITHMETIC.get(token[:-1])
        part = self.between(left, right, token)
        if other is None or part is None or is_dependent(left) or is_dependent(right):
            return
        self.add(scope, node, part, other + "=", "arithmetic", f"{token} to {other}=",
                 is_number(left) and is_number(right) or other in "+-" and is_pointer(left))

    def unary(self, node, scope):
        token = node.fields["opcode"]
        operand = node.children[0]
        if is_dependent(operand) or not node.in_text:
            return
        part = (node.end - len(token), node.end) if node.fields.get("isPostfix") else \
            (node.begin, node.begin + len(token))
        sound = is_number(operand) or is_pointer(operand)
        if token == "!":
            self.add(scope, node, part, "", "logical", "! removed", as_bool=True)
        elif token in STEPS:
            self.add(scope, node, part, STEPS[token], "arithmetic",
                     f"{token} to {STEPS[token]}", sound)
        elif token in SIGNS:
            self.add(scope, node, part, SIGNS[token], "arithmetic",
                     f"{token} removed", is_number(operand))

    def comparison(self, node, scope):
        """== and != of classes."""
        call = node
        while call.kind != "CXXOperatorCallExpr":
            if not call.children:
                return
            call = call.children[0]
        if len(call.children) != 3:
            return
        left, right = sorted(call.children[1:], key=lambda n: n.begin)
        for token, other in (("==", "!="), ("!=", "==")):
            part = self.between(left, right, token)
            if part is not None:
                self.add(scope, node, part, other, "relational", f"{token} to {other}")

    def literal(self, node, scope):
        if scope.null or not node.in_text or node.file not in self.texts:
            return
        text = self.text(node)
        whole = re.fullmatch(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)", text)
        if node.kind == "CXXBoolLiteralExpr":
            others = ["false" if text == "true" else "true"]
        elif node.kind == "CharacterLiteral":
            others = [f"static_cast<char>({text} + 1)"]
        elif node.kind == "FloatingLiteral":
            others = [f"({text} + 1)"]
        elif whole and int(whole[1], 0) < 2**31 - 1:
            value = int(whole[1], 0)
            others = [f"{v}{whole[2]}" for v in (value + 1, value - 1) if v >= 0]
        else:
            others = []
        for other in others:
            self.add(scope, node, (node.begin, node.end), other, "constant", f"{text} to {other}")

    def condition(self, node, scope):
        written = bare(node)
        while written.kind == "ParenExpr":
            written = bare(written.children[0])
        decides = written.fields.get("opcode") in {*RELATIONAL, *LOGICAL, "!"}
        if decides or written.kind in ("CXXRewrittenBinaryOperator", "CXXBoolLiteralExpr") or \
                is_dependent(written) or not written.in_text:
            return
        if written.kind == "CXXOperatorCallExpr" and callee(written) in ("operator==",
                                                                         "operator!="):
            return
        self.add(scope, written, (written.begin, written.end),
                 f"!({self.text(written)})" if written.file in self.texts else "", "logical",
                 "negated", as_bool=True)

    # ---- statements and arguments -------------------------------------------------------------

    def deletion(self, node, scope):
        if node.file not in self.texts or not node.in_text:
            return
        written = bare(node)
        if node.kind == "ReturnStmt":
            if node is scope.last or scope.returns and (
                    scope.last is None or scope.last.kind != "ReturnStmt"):
                return
        elif node.kind not in ("ContinueStmt", "BreakStmt") and \
                written.kind not in EXPRESSION_STATEMENTS or callee(written) == AUDIT:
            return
        if written.kind in ("BinaryOperator", "UnaryOperator") and \
                written.fields.get("opcode") not in ("=", ",", "++", "--"):
            return
        source = self.texts[node.file]
        behind = re.compile(r"\s*;").match(source, node.end)
        if behind is None or re.search(PREFETCH + r"\w*\(", source[node.begin:node.end]):
            return
        self.add(scope.inside(frame=(node.begin, behind.end())), node,
                 (node.begin, behind.end()), "", "statement", "deleted", deletes=True,
                 schema_end=behind.end())

    def swaps(self, node, scope):
        arguments = node.children if node.kind == "CXXTemporaryObjectExpr" else node.children[1:]
        if not node.in_text or node.file not in self.texts or callee(node) in SYMMETRIC:
            return
        for left, right in zip(arguments, arguments[1:]):
            part = self.between(left, right, ",")
            if part is None or is_dependent(left) or is_dependent(right):
                continue
            first, second = self.text(left), self.text(right)
            gap = self.texts[node.file][left.end:right.begin]
            alike = left.type == right.type or (is_number(left) and is_number(right))
            category = left.fields.get("valueCategory") == right.fields.get("valueCategory")
            if first != second:
                self.add(scope, node, (left.begin, right.end), second + gap + first,
                         "argument", "swapped", alike and category)

    # ---- the walk -----------------------------------------------------------------------------

    def walk(self, node, scope):
        kind = node.kind
        if kind in BY_COMPILER or node.fields.get("constexpr") and kind == "VarDecl":
            if node.in_text:
                self.constants.add((node.file, node.begin, node.end))
            return
        if kind in FUNCTIONS:
            self.function(node, scope)
        elif kind in ("IfStmt", "WhileStmt", "ForStmt", "DoStmt", "SwitchStmt", "CXXForRangeStmt",
                      "CompoundStmt", "CaseStmt", "DefaultStmt", "AttributedStmt"):
            self.statement(node, scope)
        elif kind == "LambdaExpr":
            self.lambda_body(node, scope)
        elif kind in ("CXXDefaultArgExpr", "CXXDefaultInitExpr") or kind.endswith("Comment"):
            return
        elif kind in CALLS and PREFETCH in callee(node):
            return
        else:
            self.expression(node, scope)

    def expression(self, node, scope):
        kind = node.kind
        if kind in ("DeclStmt", "FieldDecl", "ReturnStmt", "CXXCtorInitializer", "ParmVarDecl",
                    "VarDecl") and node.in_text:
            scope = scope.inside(frame=(node.begin, node.end))
        elif kind in ("CXXRecordDecl", "ClassTemplateSpecializationDecl"):
            scope = scope.inside(function=node.name)
        elif kind == "BinaryOperator":
            self.binary(node, scope)
        elif kind == "CompoundAssignOperator":
            self.compound(node, scope)
        elif kind == "UnaryOperator":
            self.unary(node, scope)
        elif kind == "CXXRewrittenBinaryOperator" or kind == "CXXOperatorCallExpr" and \
                callee(node) in ("operator==", "operator!="):
            self.comparison(node, scope)
        elif kind in ("IntegerLiteral", "CXXBoolLiteralExpr", "CharacterLiteral",
                      "FloatingLiteral"):
            self.literal(node, scope)
        elif kind == "ConditionalOperator":
            self.condition(node.children[0], scope)
        elif kind in CALLS:
            self.swaps(node, scope)
        null = kind == "ImplicitCastExpr" and node.fields.get("castKind") == "NullToPointer"
        for child in node.children:
            self.walk(child, scope.inside(null=null))

    def function(self, node, scope):
        if node.fields.get("isImplicit") or node.name == AUDIT or PREFETCH in node.name:
            return
        body = next((c for c in node.children if c.kind == "CompoundStmt"), None)
        result = node.fields.get("type", {}).get("qualType", "").split("(")[0].strip()
        returns = node.kind in ("CXXMethodDecl", "FunctionDecl", "CXXConversionDecl") and \
            result != "void"
        last = body.children[-1] if body is not None and body.children else None
        for child in node.children:
            self.walk(child, scope.inside(function=node.name, returns=returns, last=last))

    def lambda_body(self, node, scope):
        """The class of a lambda repeats its body."""
        bodies = [c for c in node.children if c.kind == "CompoundStmt"]
        methods = [m for c in node.children if c.kind == "CXXRecordDecl" for m in c.children]
        methods += [m for t in methods if t.kind == "FunctionTemplateDecl" for m in t.children]
        for method in methods:
            if method.kind == "CXXMethodDecl" and method.name == "operator()":
                result = method.fields.get("type", {}).get("qualType", "")
                inner = [c for c in method.children if c.kind == "CompoundStmt"] or bodies
                for body in inner:
                    last = body.children[-1] if body.children else None
                    returns = not re.match(r"(auto .* -> )?void\b|.*-> void\b", result)
                    self.walk(body, scope.inside(returns=returns, last=last))
        for child in node.children:
            if child.kind not in ("CompoundStmt", "CXXRecordDecl"):
                self.walk(child, scope)

    def statement(self, node, scope):
        kind, children = node.kind, node.children
        conditions, bodies, dropped = [], [], []
        if kind == "IfStmt":
            at = bool(node.fields.get("hasInit")) + bool(node.fields.get("hasVar"))
            conditions, bodies = [children[at]], children[at + 1:]
            if node.fields.get("isConstexpr"):
                dropped, conditions = conditions, []
            elif node.fields.get("hasVar"):
                dropped, conditions = conditions, []
        elif kind == "WhileStmt":
            conditions, bodies = children[-2:-1], children[-1:]
        elif kind == "DoStmt":
            conditions, bodies = children[1:], children[:1]
        elif kind == "ForStmt":
            conditions, bodies, dropped = [children[2]], [children[4]], [children[3]]
        elif kind == "CXXForRangeStmt":
            bodies, dropped = children[-1:], [*children[2:-1]]
        elif kind == "CompoundStmt":
            ends = node is scope.switch and children and children[-1].kind == "BreakStmt"
            bodies = children[:-1] if ends else children
        elif kind in ("CaseStmt", "DefaultStmt"):
            dropped, bodies = children[:-1], children[-1:]
        elif kind in ("AttributedStmt", "SwitchStmt"):
            bodies = children[-1:]
            scope = scope.inside(switch=bodies[0] if kind == "SwitchStmt" else None)
        for child in conditions:
            if child.kind:
                self.condition(child, scope.inside(frame=(child.begin, child.end)))
        for child in children:
            if not child.kind or any(child is d for d in dropped):
                continue
            own = scope
            if child.in_text and child.kind != "CompoundStmt":
                own = scope.inside(frame=(child.begin, child.end))
            if any(child is b for b in bodies):
                self.deletion(child, scope)
            self.walk(child, own)


def shown(source, frame, part):
    """The text around a part, on one line, with the part in backticks."""
    begin, end = part
    before = source[max(min(frame[0], begin), begin - CONTEXT):begin]
    behind = source[end:max(end, min(max(frame[1], end), end + CONTEXT))]
    text = f"{before}\0{source[begin:end]}\0{behind}"
    return " ".join(re.sub(r"//[^\n]*", "", text).split()).replace("\0", "`")


def find(trees, texts, first=1):
    """@return the mutants of these texts, whose trees may hold other files, too"""
    finder = Finder(texts)
    for tree in trees:
        finder.walk(tree, Scope())
    return finder.mutants(first)
